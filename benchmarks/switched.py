"""Observed over unobserved steady step, both within one process: processor time of neighbouring steps (budget: 1.01).

Two processes that do the same differ by more than observation costs. Here it is the same one. What this cannot show,
that an observed process is slower beyond what observation does in a step, is for the pairs of `observation` to show.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.pairs import ratio
from trueup.runs.injection import bootstrap_folder

JOB = Path(__file__).parent / "jobs" / "switched.py"
SIZES = {"tiny": (530, 100, 1), "eager": (67, 400, 1), "compiled": (67, 400, 1)}
"""Kind → steps before, pairs, steps of each side of a pair.

Neighbouring steps of the large models differ by a few percent for reasons of the machine: it takes hundreds of pairs to
tell one percent. The few of them that are sampled do not move the median.
"""


def measure(quick: bool = False) -> Iterator[str]:
    for kind in ("tiny",) if quick else SIZES:
        yield from told(kind, look(kind))


def told(kind: str, found: dict[str, list[list[float]]]) -> Iterator[str]:
    for name, key in (("observed / unobserved", "pairs"), ("A/A", "same")):
        pairs = [(first, second) for first, second in found[key]]
        middle, low, high = ratio(pairs)
        more = statistics.median(first - second for first, second in pairs)
        usual = statistics.median(second for _, second in pairs)
        yield (
            f"{kind}, {name}, cpu of neighbouring steps: {middle:.4f} (95 % {low:.4f} to {high:.4f}, "
            f"{len(pairs)} pairs), {more:+.0f} us of {usual / 1e3:.2f} ms"
        )


def look(kind: str) -> dict[str, list[list[float]]]:
    """Pairs of microseconds: `pairs` (observed, unobserved) and `same` (unobserved, unobserved)."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(JOB), kind, *map(str, SIZES[kind]), folder],
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(bootstrap_folder())},
            capture_output=True,
            text=True,
            check=True,
        )
        result: dict[str, list[list[float]]] = json.loads(done.stdout.splitlines()[-1])
        return result
