"""Bisects the job of the working folder on a new Ray cluster of two workers, one of which it kills during a run.

As `python ray_bisect.py COMMAND...`; prints the result of `trueup bisect` as JSON, its notes beside the answer.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
from ray_driver import worker_of

OUT = Path("ray.json")
KEEPER = "trueup.runs.executors.keeper"
"""In the command line of a process that makes a run."""
WAIT = 240
"""Seconds until a run must have begun."""


def main(command: list[str]) -> None:
    options = ["--executor", "ray", "--address", "local", "--jobs", "2", "--shallow", "--json", str(OUT)]
    job = subprocess.Popen(
        [sys.executable, "-m", "trueup", "bisect", *options, "--", *command], stdout=subprocess.DEVNULL
    )
    worker_of(a_run()).kill()
    job.wait()
    print(OUT.read_text())


def a_run() -> int:
    """A process that a keeper has started."""
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        for process in psutil.process_iter():
            try:
                if KEEPER in " ".join(process.cmdline()) and "TRUEUP_ATTEMPT" in process.environ():
                    children = process.children()
                    if children:
                        return int(children[0].pid)
            except psutil.Error:
                continue
        time.sleep(0.1)
    raise AssertionError("no run has begun")


if __name__ == "__main__":
    main(sys.argv[1:])
