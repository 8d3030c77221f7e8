"""Time of `trueup --help` (budget: 0.15 s), and as a ratio to starting Python alone."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.pairs import interleaved, ratio

TRUEUP = Path(sys.executable).with_name("trueup")


def seconds(*command: str) -> float:
    began = time.perf_counter()
    subprocess.run(command, capture_output=True, check=True)
    return time.perf_counter() - began


def measure(quick: bool = False) -> Iterator[str]:
    pairs = interleaved(
        lambda: seconds(str(TRUEUP), "--help"), lambda: seconds(sys.executable, "-c", "pass"), 5 if quick else 25
    )
    middle, low, high = ratio(pairs)
    fastest = min(pair[0] for pair in pairs)
    yield f"trueup --help: {fastest:.3f} s at best, {middle:.2f} x `python -c pass` (95 % {low:.2f} to {high:.2f})"
