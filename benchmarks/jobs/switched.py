"""Trains as `steps.py` does, observed in every second step only: one process, one memory, neighbours in time.

Usage: switched.py KIND WARM_UP PAIRS EACH FOLDER. What observation does in a steady step is taken away and put back
between steps: its optimizer hooks and its `torch.autograd.backward`. Prints one JSON object: `pairs`, a list of
[observed, unobserved], medians of EACH steps one after the other, in microseconds of processor time; and `same`, pairs
of which neither step is observed.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def median_of(count: int, step: Callable[[], object]) -> float:
    return 1e6 * float(statistics.median(steps.timed(step, count)["cpu"]))


if __name__ == "__main__":
    import trueup_instrument

    os.environ["TRUEUP_EVENTS"] = sys.argv[5]
    trueup_instrument.start()
    import steps  # type: ignore[import-not-found]  # beside this file
    import torch
    from torch.optim import optimizer

    kind, warm_up, count, each = sys.argv[1], *map(int, sys.argv[2:5])
    step = steps.prepared(kind)
    steps.timed(step, warm_up)
    tables = (optimizer._global_optimizer_pre_hooks, optimizer._global_optimizer_post_hooks)
    hooks = [dict(table) for table in tables]
    backward = torch.autograd.backward
    original = backward.__wrapped__

    def observe(on: bool) -> None:
        for table, kept in zip(tables, hooks, strict=True):
            table.clear()
            table.update(kept if on else {})
        torch.autograd.backward = backward if on else original

    def pair(number: int, observed: bool) -> list[float]:
        """The side that may be observed first in the answer, and second in time in every other pair."""
        taken = {}
        for first in (True, False) if number % 2 else (False, True):
            observe(first and observed)
            taken[first] = median_of(each, step)
        return [taken[True], taken[False]]

    found: dict[str, list[list[float]]] = {"pairs": [], "same": []}
    for number in range(count):
        found["pairs"].append(pair(number, observed=True))
        found["same"].append(pair(number, observed=False))
    observe(True)
    print(json.dumps(found))
