"""A kernel as data: its names, what it needs, and what torch.compile makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trueup.attention.call import Call
from trueup.attention.constraints import Constraint, Obstacle, Source, obstacles

InGraph = Literal["operator", "needs compile", "break", "traced"]
"""`operator`: one operator in the graph. `break`: opaque, breaks it. `traced`: its plain operators are compiled."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiled:
    """What Dynamo makes of a kernel from a release of its package on."""

    in_graph: InGraph
    since: tuple[int, ...] = ()
    """Release of `package`; () for all."""
    words: str = ""
    source: Source


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernel:
    """One kernel."""

    name: str
    """As in `trueup.attention.kernels` and in reports of runs."""
    title: str
    fused: bool
    """True when the score matrix is never written out."""
    package: str
    """The distribution that brings it."""
    operators: tuple[str, ...]
    """Its names in torch.profiler, forward."""
    device_kernels: tuple[str, ...] = ()
    """Parts of the names of what it launches on a GPU."""
    constraints: tuple[Constraint, ...]
    compiled: tuple[Compiled, ...] = ()
    """Newest release first."""

    def obstacles(self, call: Call) -> tuple[Obstacle, ...]:
        """All that keeps it from serving this call."""
        return tuple(obstacles(self.constraints, call))

    def is_passed_over(self, call: Call) -> bool:
        """Whether something asked before a kernel is chosen speaks against it."""
        return any(not each.raises and not each.holds(call) for each in self.constraints)

    def in_graph(self, call: Call) -> Compiled | None:
        """What torch.compile makes of it with what is installed."""
        release = call.place.versions.get(self.package, (9999,))
        return next((each for each in self.compiled if release >= each.since), None)
