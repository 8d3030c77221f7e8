"""What `trueup explain` says about a log: findings, and what could be told of failures that no rule knows."""

from __future__ import annotations

import msgspec

from trueup.schema.finding import Finding
from trueup.schema.layer import Layer

SCHEMA_VERSION = 1


class Unexplained(msgspec.Struct, frozen=True, kw_only=True):
    """A root failure that no rule explains."""

    text: str
    """`KeyError: 'labels'`, as printed, in one line."""
    type: str | None = None
    layer: Layer | None = None
    """Of the innermost library frame; None when no library of the stack is in the traceback."""
    library: str | None = None
    """Innermost frame of a library of the stack: `torch/utils/checkpoint.py:123 in forward`."""
    user: str | None = None
    """Innermost frame outside of installed packages: `train.py:88 in main`."""
    at: str | None = None
    """`file:line` of the log."""
    ranks: tuple[int, ...] = ()
    count: int = 1


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a log."""

    findings: tuple[Finding, ...] = ()
    unexplained: tuple[Unexplained, ...] = ()
    """Root failures without a finding, in the order of the log, equal ones once; empty when none is left."""
    sources: tuple[str, ...] = ()
    """Files read."""
    notes: tuple[str, ...] = ()
    """Each names a file and what of it could not be read."""
    lines: int = 0
    size: int = 0
    """Bytes read, after decompression."""
    ranks: tuple[int, ...] = ()
    world_size: int | None = None
    versions: dict[str, str] = {}
    """Package → version, as far as the log shows it."""
    schema_version: int = SCHEMA_VERSION
