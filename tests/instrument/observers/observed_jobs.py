"""What an observed run of one of the jobs beside this file left behind."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

JOBS = Path(__file__).parent / "jobs"
SCRIPTS = Path(sys.executable).parent


@dataclass(frozen=True)
class Observed:
    """One run of a job: what it printed, and the events of each of its processes."""

    stdout: str
    processes: tuple[tuple[dict[str, Any], ...], ...]

    def of(self, role: str, rank: int | None = None) -> tuple[dict[str, Any], ...]:
        """Events of the one process of that role and rank."""
        found = [events for events in self.processes if events[0]["role"] == role and events[0]["rank"] == rank]
        assert len(found) == 1, [(events[0]["role"], events[0]["rank"]) for events in self.processes]
        return found[0]


@dataclass(frozen=True)
class Process:
    """The events of one process, by kind."""

    events: tuple[dict[str, Any], ...]

    def layers(self, event: str, module: str | None = None) -> list[dict[str, Any]]:
        return [
            each
            for each in self.events
            if each["kind"] == "layer" and each["event"] == event and module in (None, each["module"])
        ]

    def layer(self, event: str, module: str | None = None) -> dict[str, Any]:
        (found,) = self.layers(event, module)
        return found

    def requests(self, layer: str, setting: str) -> list[tuple[Any, str]]:
        """(value, source) of each request for a setting, in order."""
        return [
            (each["value"], each["source"])
            for each in self.events
            if each["kind"] == "request" and (each["layer"], each["setting"]) == (layer, setting)
        ]

    @property
    def switched_off(self) -> dict[str, str]:
        return {each["observer"]: each["error"] for each in self.events if each["kind"] == "observer-off"}


def line_of(job: str, mark: str) -> str:
    """`file:line` of the line of a job that ends in `# at: mark`."""
    lines = (JOBS / job).read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"# at: {mark}")]
    return f"{JOBS / job}:{number}"
