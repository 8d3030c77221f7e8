"""What keeps a kernel from a call: constraints as data, each with its predicate, its words and its source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from trueup.attention.call import Call

Evidence = Literal["run", "read"]
"""`run`: a test of ours holds it against the real library. `read`: read in its source, never run here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Where a constraint stands."""

    where: str
    """A URL, or file and line of an installed library."""
    of: str
    """Library and version: `torch 2.13`."""
    evidence: Evidence = "read"


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What a caller can do about a constraint."""

    words: str
    """As an order: `expand the heads of keys and values to those of the queries`."""
    apply: Callable[[Call], Call]
    """The call after it."""
    exact: bool = True
    """Whether the same is computed, in the same precision, by what the caller has at hand."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Constraint:
    """One thing that a kernel needs."""

    about: str
    """`dtype`, `head size`, `GPU`, ..."""
    needs: str
    """In words: `fp16 or bf16`."""
    holds: Callable[[Call], bool]
    given: Callable[[Call], str]
    """What the call has instead, in words."""
    source: Source
    change: Callable[[Call], Change | None] = lambda call: None
    """What would help, None when nothing that a caller can do does."""
    raises: bool = False
    """True for what is not asked before the kernel is chosen: it is taken, and fails."""
    silent: bool = False
    """True where it fails without an error: results are wrong."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A constraint that a call does not meet."""

    constraint: Constraint
    given: str


def obstacles(constraints: Iterable[Constraint], call: Call) -> Iterator[Obstacle]:
    """Those of the constraints that the call does not meet, in their order."""
    for constraint in constraints:
        if not constraint.holds(call):
            yield Obstacle(constraint, constraint.given(call))
