"""How a command ended, and what was seen of its processes."""

from __future__ import annotations

from dataclasses import dataclass, field

from trueup.runs.tree import Sighting


@dataclass
class Outcome:
    """How a command ended."""

    code: int
    """As a shell gives it: 128 + signal for a death by signal, 124 for a timeout."""
    signal: str | None = None
    reason: str | None = None
    """`timeout` or `interrupted`; None when the command ended by itself."""
    pid: int | None = None
    duration_s: float = 0.0
    sightings: list[Sighting] = field(default_factory=list)
    stacks: dict[int, str] = field(default_factory=dict)
    """Python stacks at the timeout, by process id."""
    notes: list[str] = field(default_factory=list)
