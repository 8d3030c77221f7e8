"""A rule: one failure class as data, with the pure functions that detect it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from trueup.schema.finding import Confidence, Evidence, Finding, Remedy, Severity
from trueup.schema.layer import Layer
from trueup.schema.record import Record


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """What a detector saw: the part of a finding that differs from run to run."""

    message: str
    """One sentence with numbers."""
    evidence: tuple[Evidence, ...]
    confidence: Confidence = "established"
    severity: Severity | None = None
    """Overrides the severity of the rule where this sighting is worse or more harmless than usual."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One failure class. A detector is a pure function of what a collector recorded; it returns None when all is well.

    A rule may have a detector per collector: `from_record` judges a run. Detectors of logs and of the environment
    become further fields beside it.
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
    versions: Mapping[str, str] = field(default_factory=dict)
    """Package → version specifier outside of which the rule does not apply; an unknown version is not gated out."""
    explains: tuple[str, ...] = ()
    """Ids of rules whose findings follow from a finding of this one."""
    residual: bool = False
    """True for a rule that names a symptom only; its finding is dropped when another one explains it."""
    from_record: Callable[[Record], Sighting | None] | None = None

    @property
    def layer(self) -> str:
        """The folder of the rule, the first part of its id."""
        return self.id.partition("/")[0]

    def applies(self, packages: Mapping[str, str]) -> bool:
        """False when an installed version lies outside of what the rule is about."""
        return all(
            name not in packages or _within(packages[name], specifier) for name, specifier in self.versions.items()
        )

    def finding(self, sighting: Sighting) -> Finding:
        """The finding that this rule makes of `sighting`."""
        return Finding(
            rule=self.id,
            layers=self.layers,
            severity=sighting.severity or self.severity,
            confidence=sighting.confidence,
            message=sighting.message,
            cause=self.cause,
            evidence=sighting.evidence,
            remedies=self.remedies,
            sources=self.sources,
        )


def _within(installed: str, specifier: str) -> bool:
    try:
        return SpecifierSet(specifier).contains(Version(installed), prereleases=True)
    except InvalidVersion:
        return True
