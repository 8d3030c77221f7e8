"""Which remedies answer which findings, in the order in which the rules name them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from trueup.remedies.registry import application, is_known
from trueup.schema.finding import SEVERITIES, Finding


class Choice(msgspec.Struct, frozen=True):
    """One remedy for one finding."""

    rule: str
    remedy: str


def choices(findings: Iterable[Finding]) -> tuple[Choice, ...]:
    """Every remedy that can be applied, the first of each finding before its alternatives, worse findings first."""
    return tuple(
        Choice(finding.rule, remedy.id)
        for finding in sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))
        if finding.confidence != "possible"
        for remedy in finding.remedies
        if remedy.automatic and is_known(remedy.id)
    )


def next_choices(findings: Iterable[Finding], tried: Iterable[Choice], kept: Iterable[Choice]) -> tuple[Choice, ...]:
    """For each finding the first remedy not yet tried for it, one of each remedy, none that excludes another."""
    done, chosen = set(tried), list(kept)
    answered: set[str] = set()
    new: list[Choice] = []
    for choice in choices(findings):
        if choice in done or choice.rule in answered:
            continue
        if any(_exclude(choice.remedy, other.remedy) for other in chosen):
            continue
        answered.add(choice.rule)
        chosen.append(choice)
        new.append(choice)
    return tuple(new)


def alternatives(finding: Finding, choice: Choice, kept: Iterable[Choice]) -> tuple[Choice, ...]:
    """What else answers `finding` than `choice`, and goes together with what is kept beside it."""
    beside = tuple(kept)
    return tuple(
        other
        for other in choices((finding,))
        if other.remedy != choice.remedy
        and not any(each.remedy == other.remedy or _exclude(each.remedy, other.remedy) for each in beside)
    )


def _exclude(one: str, other: str) -> bool:
    return other in application(one).excludes or one in application(other).excludes
