"""The judgement of a log: which rules explain its failures, root causes first.

Each failure is explained by the rule that fits it most closely: a detector of structure before a text, a longer text
before a shorter one. Texts that several classes share never decide alone. What follows from a root that no rule knows
is no finding, since its cause is not known either.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

import msgspec

from trueup.rules.definition import Rule, Sighting
from trueup.rules.judgement import CONFIDENCES, rule_failed
from trueup.rules.log_claims import WHOLE_LOG, Claim, TextClaims, claims_of
from trueup.rules.log_index import TextIndex
from trueup.rules.registry import all_rules
from trueup.schema.finding import SEVERITIES, Evidence, Finding
from trueup.schema.log import Log

MOST_EVIDENCE = 5
MOST_POSSIBLE = 3
"""Findings about one failure of which none is more than possible."""


@dataclass(frozen=True)
class LogJudgement:
    """What the rules say about a log."""

    findings: tuple[Finding, ...]
    explained: frozenset[int]
    """Positions of the failures that a finding explains, more than possibly."""


def judge_log(log: Log, rules: Iterable[Rule] | None = None) -> tuple[Finding, ...]:
    """All findings of a log: root causes first, then what follows from them, then warnings of a job that went on."""
    return judgement_of(log, rules).findings


def judgement_of(log: Log, rules: Iterable[Rule] | None = None) -> LogJudgement:
    """The findings, and which failures they explain."""
    chosen = all_rules() if rules is None else tuple(rules)
    index = _index_of_all() if rules is None else TextIndex(chosen)
    applying = [rule for rule in chosen if rule.applies(log.versions)]
    failed: list[Finding] = []
    claims = [*_sightings(log, applying, failed), *TextClaims(log, index, applying)]
    fitting = [claim for on_one in _by_position(claims) for claim in _fitting(on_one)]
    explained = frozenset(claim.position for claim in fitting if claim.certain)
    return LogJudgement((*_Order(log, fitting).findings(), *failed), explained)


@cache
def _index_of_all() -> TextIndex:
    return TextIndex(all_rules())


def _sightings(log: Log, rules: Iterable[Rule], failed: list[Finding]) -> Iterator[Claim]:
    for rule in rules:
        try:
            seen = rule.from_log(log) if rule.from_log else None
        except Exception as error:  # one broken rule must not cost the user all other findings
            failed.append(rule_failed(rule, error))
            continue
        if seen is not None:
            yield from claims_of(rule, seen, log)


def _by_position(claims: Iterable[Claim]) -> Iterator[list[Claim]]:
    groups: dict[int, list[Claim]] = defaultdict(list)
    for claim in claims:
        groups[claim.position].append(claim)
    for position in sorted(groups):
        yield sorted(groups[position], key=lambda claim: claim.fit)


def _fitting(claims: list[Claim]) -> list[Claim]:
    """Of the claims on one failure the closest that is certain; before it what is more specific and only possible."""
    if claims[0].position == WHOLE_LOG:
        return claims
    certain = [claim for claim in claims if claim.certain]
    if not certain:
        return claims[:MOST_POSSIBLE]
    nearer = [claim for claim in claims if claim.sighting and not claim.certain and claim.weight > certain[0].weight]
    return [*nearer[:1], certain[0]]


class _Order:
    """The order in which a person should read the findings: roots, what follows from them, warnings."""

    def __init__(self, log: Log, claims: list[Claim]) -> None:
        self._claims = claims
        self._roots = {position for position, failure in enumerate(log.failures) if failure.role == "root"}
        self._certain = {claim.position for claim in claims if claim.certain}

    def findings(self) -> Iterator[Finding]:
        by_rule: dict[str, list[Claim]] = defaultdict(list)
        for claim in sorted(self._claims, key=self._rank):
            by_rule[claim.rule.id].append(claim)
        unknown_root = bool(self._roots) and self._certain.isdisjoint({*self._roots, WHOLE_LOG})
        root: str | None = None
        found: list[tuple[Rule, Finding]] = []
        for claims in by_rule.values():
            finding = _finding(claims)
            if self._follows(claims[0]):
                if unknown_root:
                    continue
                finding = msgspec.structs.replace(finding, follows=root)
            elif root is None and finding.confidence != "possible" and not _is_warning(claims[0]):
                root = finding.rule
            found.append((claims[0].rule, finding))
        yield from _effects_behind(found)

    def _rank(self, claim: Claim) -> tuple[int, bool, int, tuple[int, int, str]]:
        group = 2 if _is_warning(claim) else 1 if self._follows(claim) else 0
        return group, claim.position not in self._certain, claim.position, claim.fit

    def _follows(self, claim: Claim) -> bool:
        """True for a cascade or a summary of a job whose root is in the log."""
        return bool(self._roots) and claim.failure is not None and claim.failure.role in ("cascade", "summary")


def _is_warning(claim: Claim) -> bool:
    return claim.failure is not None and claim.failure.role == "warning"


def _finding(claims: list[Claim]) -> Finding:
    """What one rule says about all failures that it explains; the first of them is the one to read."""
    evidence = _merged(evidence for claim in claims for evidence in claim.evidence)
    sighting = next((claim.sighting for claim in claims if claim.sighting), None)
    if sighting is None:
        surest = min((claim.confidence for claim in claims), key=CONFIDENCES.index)
        sighting = Sighting(message=str(evidence[0].value), evidence=evidence, confidence=surest)
    finding = msgspec.structs.replace(claims[0].rule.finding(sighting), evidence=evidence)
    if finding.severity == "error" and all(map(_is_warning, claims)):
        return msgspec.structs.replace(finding, severity="warning")
    return finding


def _merged(evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """The same text printed by many ranks is one piece of evidence, at the first place."""
    merged: dict[tuple[str, object], Evidence] = {}
    for each in evidence:
        before = merged.setdefault((each.what, each.value), each)
        if not set(each.ranks) <= set(before.ranks):
            ranks = tuple(sorted({*before.ranks, *each.ranks}))
            merged[each.what, each.value] = msgspec.structs.replace(before, ranks=ranks)
    return tuple(merged.values())[:MOST_EVIDENCE]


def _effects_behind(found: list[tuple[Rule, Finding]]) -> Iterator[Finding]:
    """What another finding explains comes behind it, or not at all where its rule names only a symptom."""
    explained_by: dict[str, str] = {}
    for rule, finding in found:
        for effect, behind in found:
            severe = SEVERITIES.index(finding.severity) <= SEVERITIES.index(behind.severity)
            if effect.id in rule.explains and severe and finding.confidence != "possible":
                explained_by.setdefault(effect.id, rule.id)
    yield from (finding for rule, finding in found if rule.id not in explained_by)
    for rule, finding in found:
        if rule.id in explained_by and not rule.residual:
            yield msgspec.structs.replace(finding, follows=explained_by[rule.id])
