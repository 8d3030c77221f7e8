"""The answer of `trueup attention explain`: which kernel takes a call, and what keeps the others from it."""

from __future__ import annotations

from typing import Literal

import msgspec

SCHEMA_VERSION = 1


class Lack(msgspec.Struct, frozen=True, kw_only=True):
    """One constraint of a kernel that the call does not meet."""

    about: str
    """`dtype`, `head size`, `mask`, ..."""
    needs: str
    given: str
    source: str
    """URL, or file and line."""
    of: str
    """Library and version that it was read in."""
    evidence: Literal["run", "read"]
    """`run`: tests hold it against the real library. `read`: read in its source, unverified here."""
    raises: bool = False
    """True for what nobody asks before the kernel is taken: it then fails."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel beside this call."""

    kernel: str
    title: str
    fused: bool
    serves: bool
    behind: bool
    """Whether the function that is called has it behind it; the others take another function."""
    lacks: tuple[Lack, ...] = ()
    changes: tuple[str, ...] = ()
    """What makes it serve; empty when it does, and when nothing that a caller can change does."""
    compile: str = ""
    """What torch.compile makes of it with what is installed."""


class Better(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel that ranks above the one that is taken, and the way to it."""

    kernel: str
    changes: tuple[str, ...]
    through: str
    """What to call for it; empty when it is behind the same function."""


class Fallback(msgspec.Struct, frozen=True, kw_only=True):
    """Instead of a kernel that was asked for by name and cannot serve."""

    requested: str
    actual: str | None
    reason: str
    changes: tuple[str, ...] = ()
    """What `actual` needs, which changes no result."""


class KernelAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """All that is told about one call."""

    entry: str
    title: str
    """What is called: `torch.nn.functional.scaled_dot_product_attention`."""
    call: str
    """In words."""
    given: str = ""
    """What a library in between makes of it; empty when it is passed on as it is."""
    place: str
    """Device and versions, in words."""
    takes: str | None
    """Name of the kernel; None where none runs."""
    why: str
    error: str = ""
    """The error that the call ends in; empty when it succeeds."""
    order: tuple[str, ...] = ()
    """Kernels behind the function, as they are asked."""
    ranked_by: Literal["generation", "measurement"] = "generation"
    """Why one kernel is called better than another: `trueup attention bench` has measured such calls here, or not."""
    candidates: tuple[Candidate, ...] = ()
    """Those behind the function first, then the others from the best on."""
    better: tuple[Better, ...] = ()
    fallback: Fallback | None = None
    notes: tuple[str, ...] = ()
    """What was assumed."""
    schema_version: int = SCHEMA_VERSION
    trueup_version: str | None = None
