"""A rule: one failure class as data, with the pure functions that detect it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from trueup.schema.environment import Environment
from trueup.schema.finding import Confidence, Evidence, Finding, Remedy, Severity
from trueup.schema.layer import Layer
from trueup.schema.log import Failure, FailureKind, Log
from trueup.schema.record import Record

Strength = Literal["decisive", "supporting"]


class LogText(msgspec.Struct, frozen=True, kw_only=True):
    """Text that a failure of one class prints, and where it counts.

    It is compared with the type, message and causes of one failure. A restriction that the failure tells nothing about
    (a type or frames that a truncated log does not show) is not held against it; one that it contradicts is.
    """

    text: str
    """As printed: white space collapsed, `<lower_case>` for a variable part of one line; whole words at both ends."""
    strength: Strength = "decisive"
    """decisive: names the class; supporting: several classes print it. Alone it makes a finding possible; two of them,
    or one whose `inside` is met, make it likely."""
    versions: str = ""
    """Where this wording is printed, in words: `torch 2.0 to 2.6`."""
    gates: Mapping[str, str] = {}
    """Package → specifier of the releases that print it; a version that the log does not show is not gated out."""
    kinds: tuple[FailureKind, ...] = ()
    """Kinds of failure that it may be read in; empty: any."""
    types: tuple[str, ...] = ()
    """Last names of the exception types that it may be read in: `OutOfMemoryError`; empty: any."""
    inside: tuple[str, ...] = ()
    """Parts of paths, one of which a frame must hold: `torch/utils/checkpoint.py`, `peft/`; empty: any."""
    not_with: tuple[str, ...] = ()
    """Texts, written like `text`, that anywhere in the log rule it out."""


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """What a detector saw: the part of a finding that differs from run to run."""

    message: str
    """One sentence with numbers."""
    evidence: tuple[Evidence, ...]
    confidence: Confidence = "established"
    severity: Severity | None = None
    """Overrides the severity of the rule where this sighting is worse or more harmless than usual."""
    cause: str = ""
    """What this very case comes from, where the evidence tells; empty for what the rule says in general."""
    remedies: tuple[Remedy, ...] = ()
    """What cures this very case, with its names, versions and paths; empty for what the rule says in general."""
    failure: Failure | None = None
    """For detectors of logs: the failure that this explains; other rules then explain it no more, unless they are more
    specific."""
    specificity: int = 1000
    """For detectors of logs: what it weighs against texts, whose weight is their number of literal characters.
    The default says: structure before wording."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One failure class. A detector is a pure function of what a collector recorded; it returns None when all is well.

    A rule may have a detector per collector: `from_record` judges a run; `log` and `from_log` what a job printed;
    `from_environment` what is installed and attached.
    """

    id: str
    """`layer/slug`, stable; the slug with underscores is the file name."""
    title: str
    layers: tuple[Layer, ...]
    severity: Severity
    silent: str
    """Why it stays unnoticed; empty when it does not."""
    cause: str
    remedies: tuple[Remedy, ...]
    caution: str
    """What looks like it and is not."""
    sources: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    versions: Mapping[str, str] = {}
    """Package → version specifier outside of which the rule does not apply; an unknown version is not gated out."""
    explains: tuple[str, ...] = ()
    """Ids of rules whose findings follow from a finding of this one."""
    residual: bool = False
    """True for a rule that names a symptom or a cost only: its finding stands behind others of its severity, and is
    dropped when another one explains it."""
    from_record: Callable[[Record], Sighting | None] | None = None
    log: tuple[LogText, ...] = ()
    """What it prints, as data; enough for most classes."""
    from_log: Callable[[Log], Sighting | None] | None = None
    """For what needs structure: several lines, numbers that must agree, ranks, frames. Asked before the texts."""
    from_environment: Callable[[Environment], Sighting | None] | None = None
    """A fact that is None could not be read, and proves nothing."""

    @property
    def layer(self) -> str:
        """The folder of the rule, the first part of its id."""
        return self.id.partition("/")[0]

    def applies(self, packages: Mapping[str, str]) -> bool:
        """False when an installed version lies outside of what the rule is about."""
        return within(packages, self.versions)

    def finding(self, sighting: Sighting) -> Finding:
        """The finding that this rule makes of `sighting`."""
        return Finding(
            rule=self.id,
            layers=self.layers,
            severity=sighting.severity or self.severity,
            confidence=sighting.confidence,
            message=sighting.message,
            cause=sighting.cause or self.cause,
            evidence=sighting.evidence,
            remedies=sighting.remedies or self.remedies,
            sources=self.sources,
        )


def within(packages: Mapping[str, str], gates: Mapping[str, str]) -> bool:
    """False when a version that is known lies outside of its specifier."""
    return all(name not in packages or _within(packages[name], specifier) for name, specifier in gates.items())


def _within(installed: str, specifier: str) -> bool:
    try:
        return SpecifierSet(specifier).contains(Version(installed), prereleases=True)
    except InvalidVersion:
        return True
