"""Processor time that a steady step spends inside trueup, function by function, in microseconds: no pairs, no noise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from trueup.runs.injection import bootstrap_folder

JOB = Path(__file__).parent / "jobs" / "entries.py"
STEADY = {"tiny": (530, 400), "loop": (530, 400), "eager": (67, 25), "compiled": (67, 25)}
"""Kind → steps before, and steps looked at: none of these is sampled."""
OFTEN = 0.5
"""Calls per step from which on a function belongs to the steady step."""


def measure(quick: bool = False) -> Iterator[str]:
    """For each kind, what it takes in all and what each function takes."""
    for kind in ("tiny", "loop") if quick else STEADY:
        step, entries = look(kind)
        steady = {name: calls * each for name, (calls, each) in entries.items() if calls >= OFTEN}
        total = sum(steady.values())
        yield f"{kind}: {total:.0f} us inside trueup in a step of {step / 1e3:.2f} ms ({total / step:.4%})"
        for name, microseconds in sorted(steady.items(), key=lambda item: -item[1]):
            yield f"  {microseconds:6.1f} us  {name}"


def look(kind: str) -> tuple[float, dict[str, list[float]]]:
    """(microseconds of a step, {function: [calls per step, microseconds of a call]})."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(JOB), kind, *map(str, STEADY[kind]), folder],
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(bootstrap_folder())},
            capture_output=True,
            text=True,
            check=True,
        )
        result = json.loads(done.stdout.splitlines()[-1])
        return result["step"], result["entries"]
