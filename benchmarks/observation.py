"""Step time of a training job with observation over the same job without it (budget: 1.01, median of pairs).

Each side is a fresh process; the job prints the time of each step on its own clock. Steps before the twentieth, which
compile and warm up, are left out; so is nothing else: the sampled steps are in. CPU time of the process stands beside
wall time, since the machine may be shared.
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

JOB = Path(__file__).parent / "jobs" / "steps.py"
WARM_UP = 20


def measure(quick: bool = False) -> Iterator[str]:
    """One line per kind of job: the ratio in wall time and in CPU time."""
    for kind in ("eager", "compiled"):
        rows: list[dict[str, dict[str, list[float]]]] = []
        for number in range(2 if quick else 8):
            sides = ("observed", "plain") if number % 2 else ("plain", "observed")
            rows.append({side: steps(kind, observed=side == "observed") for side in sides})
        for clock in ("wall", "cpu"):
            for name, of in (("median", middle), ("fastest quarter", fastest)):
                pairs = [(of(row["observed"][clock]), of(row["plain"][clock])) for row in rows]
                middle_ratio, low, high = ratio(pairs)
                yield (
                    f"{kind} {clock}, {name}: observed / unobserved step time {middle_ratio:.4f} (95 % {low:.4f} to "
                    f"{high:.4f}, {len(pairs)} pairs, step {1e3 * statistics.median(p[1] for p in pairs):.1f} ms)"
                )
        same = all(row["observed"]["losses"] == row["plain"]["losses"] for row in rows)
        graphs = all(row["observed"]["graphs"] == row["plain"]["graphs"] for row in rows)
        yield f"{kind}: losses bit-equal {same}, graph counts equal {graphs}"


def middle(times: list[float]) -> float:
    return statistics.median(times[WARM_UP:])


def fastest(times: list[float]) -> float:
    """Mean of the fastest quarter of the steps: a neighbour on the machine only ever adds to a step."""
    late = sorted(times[WARM_UP:])
    return statistics.fmean(late[: len(late) // 4])


def steps(kind: str, observed: bool) -> dict[str, list[float]]:
    """Run the job once and return what it measured."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        if observed:
            environment |= {"PYTHONPATH": str(bootstrap_folder()), "TRUEUP_EVENTS": folder}
        done = subprocess.run(
            [sys.executable, str(JOB), kind], env=environment, capture_output=True, text=True, check=True
        )
        result: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
        return result
