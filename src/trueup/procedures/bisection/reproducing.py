"""A bisection with a script of its own that fails in the same way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from trueup.procedures.reproduction.files import sources_of
from trueup.procedures.reproduction.reproduce import SECONDS, reproduce
from trueup.procedures.reproduction.running import Runs, seconds_of
from trueup.runs.signals import Ending
from trueup.schema.bisection import Bisection


def with_reproduction(
    found: Bisection, folder: Path, say: Callable[[str], object], budget: float = SECONDS
) -> Bisection:
    """`found` with the reproduction that was seen to fail and to pass, or with a note that says why there is none.

    `folder` is that of the job, `budget` the seconds that the search may take. An interrupt ends the search only.
    """
    if not found.minimal or found.signature is None or found.record is None:
        return found
    runs = Runs(
        found.signature,
        source=folder,
        timeout=seconds_of(found.record),
        interpreter=found.record.environment.get("executable"),
        say=say,
    )
    try:
        with Ending():
            repro, why = reproduce(found, sources_of(found.record, folder), runs, budget, say)
    except KeyboardInterrupt:
        repro, why = None, "interrupted"
    if repro is None:
        return msgspec.structs.replace(found, notes=(*found.notes, f"no script of its own shows the fault: {why}"))
    return msgspec.structs.replace(found, repro=repro)
