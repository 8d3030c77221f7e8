"""How a judgement is put together out of rules."""

import pytest
from healthy_record import record

from trueup.rules import Rule, Sighting, judge
from trueup.schema.finding import Evidence, Remedy


def made(
    name, *, severity="warning", confidence="established", explains=(), residual=False, versions=None, detect=None
):
    """A rule that always fires."""
    sighting = Sighting(message=name, evidence=(Evidence(what="seen"),), confidence=confidence)
    return Rule(
        id=name,
        title=name,
        layers=(name.partition("/")[0],),
        severity=severity,
        silent="",
        cause="A cause.",
        remedies=(Remedy(id="repair", kind="code", automatic=False, how="repair it"),),
        caution="Nothing.",
        versions=versions or {},
        explains=explains,
        residual=residual,
        from_record=detect or (lambda record: sighting),
    )


def names(*rules):
    return [finding.rule for finding in judge(record({}), rules)]


def test_the_severe_stand_first_then_the_certain_then_the_early_layers():
    assert names(
        made("trainer/note", severity="note"),
        made("compile/sure"),
        made("launcher/unsure", confidence="possible"),
        made("launcher/sure"),
        made("trainer/crash", severity="error"),
    ) == ["trainer/crash", "launcher/sure", "compile/sure", "launcher/unsure", "trainer/note"]


def test_a_symptom_is_dropped_when_its_cause_is_known():
    cause = made("compile/cause", explains=("compile/symptom",))
    assert names(made("compile/symptom", residual=True), cause) == ["compile/cause"]
    assert names(made("compile/symptom", residual=True)) == ["compile/symptom"]


def test_a_symptom_or_cost_stands_behind_what_is_less_certain_and_later_in_the_stack():
    cost = made("compile/cost", severity="note", residual=True)
    assert names(cost, made("trainer/fault", severity="note", confidence="likely")) == ["trainer/fault", "compile/cost"]


def test_another_class_that_follows_is_put_behind_and_says_from_what():
    effect = made("attention/effect", severity="error")
    cause = made("compile/cause", severity="error", explains=("attention/effect",))
    first, second = judge(record({}), (effect, cause))
    assert (first.rule, first.follows) == ("compile/cause", None)
    assert (second.rule, second.follows) == ("attention/effect", "compile/cause")


def test_the_most_certain_of_two_causes_is_named():
    likely = made("attention/likely", confidence="likely", explains=("trainer/effect",))
    sure = made("trainer/sure", explains=("trainer/effect",))
    *_, last = judge(record({}), (likely, sure, made("trainer/effect")))
    assert last.follows == "trainer/sure"


def test_a_mere_possibility_explains_nothing():
    maybe = made("compile/maybe", confidence="possible", explains=("compile/symptom",))
    assert names(made("compile/symptom", residual=True), maybe) == ["compile/maybe", "compile/symptom"]


def test_a_note_does_not_explain_a_warning_away():
    note = made("compile/note", severity="note", explains=("compile/symptom",))
    assert names(made("compile/symptom", residual=True), note) == ["compile/symptom", "compile/note"]


def test_a_rule_that_raises_costs_no_other_finding_and_is_told():
    def broken(_):
        raise KeyError("detail")

    found = judge(record({}), (made("compile/broken", detect=broken), made("trainer/other")))
    assert [finding.rule for finding in found] == ["trainer/other", "trueup/rule-failed"]
    assert found[1].severity == "note"
    assert "compile/broken" in found[1].message
    assert "KeyError" in found[1].message


@pytest.mark.parametrize(
    ("installed", "fires"),
    [("2.9.1+cu128", True), ("2.9.0a0+git123", True), ("2.10.0", False), ("not a version", True), (None, True)],
)
def test_versions_gate_a_rule_and_an_unknown_version_does_not(installed, fires):
    gated = made("compile/old", versions={"torch": "<2.10"})
    job = record({"environment": {"packages": {"torch": installed}}})
    assert bool(judge(job, (gated,))) is fires


def test_a_record_of_a_run_that_never_trained_is_judged_without_a_word():
    empty = record({})
    assert judge(type(empty)()) == ()
