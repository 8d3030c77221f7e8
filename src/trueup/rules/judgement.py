"""The judgement of a record or of an environment: which rules fire, in which order a person should read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import taken_out
from trueup.rules.registry import all_rules, rules_with
from trueup.schema.environment import Environment
from trueup.schema.finding import SEVERITIES, Confidence, Finding
from trueup.schema.layer import LAYERS
from trueup.schema.record import Record

RULE_FAILED = "trueup/rule-failed"
"""Id of the note that says that a rule could not judge."""

CONFIDENCES: tuple[Confidence, ...] = ("established", "likely", "possible")
_Facts = TypeVar("_Facts")


class _Fired(msgspec.Struct, frozen=True):
    rule: Rule
    finding: Finding


def judge(record: Record, rules: Iterable[Rule] | None = None) -> tuple[Finding, ...]:
    """All findings of a run, causes before what follows from them, the most severe first.

    A finding that another one explains is dropped when its rule names only a symptom (`residual`), else put behind with
    `follows` set. A finding that is merely possible explains nothing, nor does a note explain a warning. A rule of a
    layer that the variant took out of the run has nothing to judge.
    """
    chosen = all_rules() if rules is None else rules
    there = [rule for rule in chosen if not taken_out(record, rule.id.partition("/")[0])]
    return _judged(record, _packages(record.environment), lambda rule: rule.from_record, there)


def judge_environment(environment: Environment, rules: Iterable[Rule] | None = None) -> tuple[Finding, ...]:
    """All findings of what is installed and attached, in the same order."""
    packages = {name: package.version for name, package in environment.packages.items()}
    chosen = rules_with("from_environment") if rules is None else rules
    return _judged(environment, packages, lambda rule: rule.from_environment, chosen)


def _judged(
    facts: _Facts,
    packages: Mapping[str, str],
    detector_of: Callable[[Rule], Callable[[_Facts], Sighting | None] | None],
    rules: Iterable[Rule] | None,
) -> tuple[Finding, ...]:
    fired: list[_Fired] = []
    failed: list[Finding] = []
    for rule in all_rules() if rules is None else rules:
        detect = detector_of(rule)
        if detect is None or not rule.applies(packages):
            continue
        try:
            sighting = detect(facts)
        except Exception as error:  # one broken rule must not cost the user all other findings
            failed.append(rule_failed(rule, error))
            continue
        if sighting is not None:
            fired.append(_Fired(rule, rule.finding(sighting)))
    return (*_ordered(fired), *failed)


def _ordered(fired: list[_Fired]) -> Iterator[Finding]:
    ranked = sorted(fired, key=_rank)
    explained_by: dict[str, str] = {}
    for cause in ranked:
        for effect in ranked:
            if _explains(cause, effect):
                explained_by.setdefault(effect.rule.id, cause.rule.id)
    causes = [each for each in ranked if each.rule.id not in explained_by]
    effects = [each for each in ranked if each.rule.id in explained_by and not each.rule.residual]
    for each in causes:
        yield each.finding
    for each in effects:
        yield msgspec.structs.replace(each.finding, follows=explained_by[each.rule.id])


def _explains(cause: _Fired, effect: _Fired) -> bool:
    severe = SEVERITIES.index(cause.finding.severity) <= SEVERITIES.index(effect.finding.severity)
    return effect.rule.id in cause.rule.explains and severe and cause.finding.confidence != "possible"


def _rank(fired: _Fired) -> tuple[int, bool, int, int, str]:
    """Severe, specific and certain first; then in the order in which a stack is built, where causes come first."""
    finding = fired.finding
    return (
        SEVERITIES.index(finding.severity),
        fired.rule.residual,
        CONFIDENCES.index(finding.confidence),
        LAYERS.index(fired.rule.layers[0]),
        finding.rule,
    )


def _packages(environment: Mapping[str, Any]) -> dict[str, str]:
    packages = environment.get("packages")
    if not isinstance(packages, Mapping):
        return {}
    return {str(name): str(version) for name, version in packages.items() if version}


def rule_failed(rule: Rule, error: Exception) -> Finding:
    return Finding(
        rule=RULE_FAILED,
        layers=rule.layers,
        severity="note",
        confidence="established",
        message=f"The rule {rule.id} could not judge: {type(error).__name__}: {error}",
        cause="A defect of trueup, or a record of another version; what this rule looks for may be present unseen.",
    )
