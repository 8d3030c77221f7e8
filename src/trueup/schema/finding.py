"""What a rule says when it fires: the failure class, its evidence, and what cures it."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from trueup.schema.layer import Layer

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""Worst first."""
Confidence = Literal["established", "likely", "possible"]
RemedyKind = Literal["in-process", "env-var", "config-edit", "install", "code"]


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One observed fact on which a finding rests."""

    what: str
    """The quantity, in words: `blocks compiled in the last sampled step`."""
    value: str | int | float | bool | None = None
    at: str | None = None
    """`file:line` of the user's code, or of the log, where the fact was seen."""
    ranks: tuple[int, ...] = ()
    """Ranks that showed it; empty when it does not belong to particular ranks."""


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """What cures a finding."""

    id: str
    kind: RemedyKind
    automatic: bool
    """True when trueup can apply it to an unmodified command."""
    how: str
    """The exact line, setting or command, for a person."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that fired on a record, an environment or a log."""

    rule: str
    """Stable id `layer/slug`."""
    layers: tuple[Layer, ...]
    severity: Severity
    confidence: Confidence
    message: str
    """One sentence with numbers: what was seen."""
    cause: str
    """Why it happens, in at most two sentences."""
    evidence: tuple[Evidence, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    sources: tuple[str, ...] = ()
    follows: str | None = None
    """Id of the finding in the same judgement that explains this one; None for a cause of its own."""
