"""What trueup can apply is what rules call automatic, and each in-process remedy has its applier."""

from __future__ import annotations

import pytest

from trueup.remedies import registry
from trueup.remedies.application import Application
from trueup.remedies.registry import APPLICATIONS, RemedyError, application, checked, is_known
from trueup.rules.registry import all_rules
from trueup.runs.injection import bootstrap_folder

APPLIERS = bootstrap_folder() / "trueup_instrument" / "appliers" / "remedies"


def test_what_rules_call_automatic_can_be_applied() -> None:
    named = {(rule.id, remedy.id) for rule in all_rules() for remedy in rule.remedies if remedy.automatic}
    assert named
    assert [each for each in sorted(named) if not is_known(each[1])] == []


def test_what_can_be_applied_is_called_automatic_by_every_rule_that_names_it() -> None:
    wrong = [
        (rule.id, remedy.id)
        for rule in all_rules()
        for remedy in rule.remedies
        if is_known(remedy.id) and not remedy.automatic
    ]
    assert wrong == []
    assert {each.remedy for each in APPLICATIONS} <= {remedy.id for rule in all_rules() for remedy in rule.remedies}


def test_each_in_process_remedy_has_an_applier_and_each_applier_a_remedy() -> None:
    files = {path.stem for path in APPLIERS.glob("*.py")} - {"__init__"}
    assert files == {each.remedy.replace("-", "_") for each in APPLICATIONS if each.in_process}


def test_what_a_remedy_corrects_or_excludes_is_there() -> None:
    rules = {rule.id for rule in all_rules()}
    for each in APPLICATIONS:
        assert set(each.corrects) <= rules
        assert all(is_known(other) for other in each.excludes)
        assert each.in_process or each.variables or each.computed


@pytest.mark.parametrize(
    ("asked", "told"),
    [("turbo", "`trueup fix` writes a file with those"), ("disable-cache", "did you mean .*disable-kv-cache")],
)
def test_an_unknown_remedy_is_told_with_what_is_like_it(asked: str, told: str) -> None:
    with pytest.raises(RemedyError, match=f"no remedy '{asked}'.*{told}"):
        application(asked)


def test_remedies_that_exclude_each_other_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    applications = (Application(remedy="one", excludes=("other",)), Application(remedy="other"))
    monkeypatch.setattr(registry, "APPLICATIONS", applications)
    registry._by_id.cache_clear()
    try:
        with pytest.raises(RemedyError, match="the remedies one and other exclude each other"):
            checked(["other", "one"])
    finally:
        registry._by_id.cache_clear()
