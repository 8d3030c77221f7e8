"""Run every benchmark, or those named: `python -m benchmarks [observation startup ...] [--quick]`."""

from __future__ import annotations

import argparse
import importlib
import sys

NAMES = ("startup", "observation", "switched", "entries", "logs", "symbols", "bridge", "bisect")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions: a look, not a measurement")
    options = parser.parse_args()
    unknown = set(options.names) - set(NAMES)
    if unknown:
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; choose from {', '.join(NAMES)}")
    for name in options.names or NAMES:
        print(f"## {name}", flush=True)
        for line in importlib.import_module(f"benchmarks.{name}").measure(quick=options.quick):
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
