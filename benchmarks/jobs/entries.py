"""Trains as `steps.py` does, observed, with a clock around each function of trueup's that is called during a step.

Usage: entries.py KIND WARM_UP STEPS FOLDER. Prints one JSON object: `step`, microseconds of processor time of a median
step, and `entries`: {name: [calls per step, microseconds of a median call]}, those within others left out. The clock
itself is in both: figures are upper bounds.
"""

from __future__ import annotations

import functools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

if __name__ == "__main__":
    import trueup_instrument
    from trueup_instrument.session import Session

    taken: dict[str, list[int]] = {}
    depth = 0

    def clocked(guarded: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(guarded)
        def guard(self: Session, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
            call = guarded(self, name, function)
            label = f"{name}: {getattr(function, '__qualname__', repr(function))}"

            @functools.wraps(call)
            def timed_call(*args: Any, **kwargs: Any) -> Any:
                global depth
                began = time.thread_time_ns()
                depth += 1
                try:
                    return call(*args, **kwargs)
                finally:
                    depth -= 1
                    if not depth:
                        taken.setdefault(label, []).append(time.thread_time_ns() - began)

            return timed_call

        return guard

    Session.guarded = clocked(Session.guarded)  # type: ignore[method-assign]  # before anything is attached
    os.environ["TRUEUP_EVENTS"] = sys.argv[4]
    trueup_instrument.start()
    import steps  # type: ignore[import-not-found]  # beside this file

    kind, warm_up, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    step = steps.prepared(kind)
    steps.timed(step, warm_up)
    taken.clear()
    cpu = steps.timed(step, count)["cpu"]
    entries = {label: [len(calls) / count, statistics.median(calls) / 1e3] for label, calls in taken.items()}
    print(json.dumps({"step": 1e6 * statistics.median(cpu), "entries": entries}))
