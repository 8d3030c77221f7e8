"""What a run of one of the jobs beside this file, with layers forced, left behind."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trueup.schema.record import Record

JOBS = Path(__file__).parent / "jobs"
TORCHRUN = Path(sys.executable).parent / "torchrun"


@dataclass(frozen=True)
class Switched:
    """One run of a job with layers forced."""

    record: Record
    printed: dict[str, Any]
    events: tuple[dict[str, Any], ...]

    def details(self, layer: str, key: str = "change") -> set[tuple[str | None, str]]:
        """(module, what was changed) of each event of a layer's applier, or with `cannot` what was not."""
        return {
            (event["module"], event["detail"][key])
            for event in self.events
            if event["kind"] == "applier" and event["applier"] == layer and key in event["detail"]
        }

    def switched_layers(self) -> set[str]:
        return {event["applier"] for event in self.events if event["kind"] == "applier"}

    def observers_off(self) -> list[str]:
        return [event["observer"] for event in self.events if event["kind"] == "observer-off"]


Switch = Callable[..., Switched]
"""`switch(job, *arguments, ranks=None, **layers)`"""
