"""Which rule explains a failure, and in which order findings are told."""

import pytest
from test_matching import rule

from trueup.rules import LogText, Sighting, judge_log
from trueup.rules.judgement import RULE_FAILED
from trueup.schema.finding import Evidence
from trueup.schema.log import Failure, Frame, Log


def failure(message, role="root", **rest):
    return Failure(kind=rest.pop("kind", "exception"), role=role, message=message, first_line=1, last_line=1, **rest)


def judged(rules, *failures, **log):
    findings = judge_log(Log(failures=failures, sources=("job.log",), **log), rules)
    return [f"{finding.rule} ({finding.confidence})" for finding in findings]


def text(words, **rest):
    return LogText(text=words, **rest)


def supporting(words, **rest):
    return LogText(text=words, strength="supporting", **rest)


def test_the_longest_decisive_text_wins():
    short, long = rule("compile/short", text("was not found")), rule("compile/long", text("nvcc was not found"))
    assert judged([short, long], failure("nvcc was not found")) == ["compile/long (established)"]


def test_advice_is_no_failure():
    assert judged([rule("compile/one", text("try this"))], failure("try this", role="advice")) == []


def test_a_shared_text_alone_is_a_possibility():
    assert judged([rule("compile/one", supporting("mismatch"))], failure("mismatch")) == ["compile/one (possible)"]


def test_two_shared_texts_make_it_likely_also_in_different_failures():
    both = rule("compile/one", supporting("first sign"), supporting("second sign"))
    assert judged([both], failure("first sign"), failure("second sign")) == ["compile/one (likely)"]


def test_a_text_within_another_does_not_count_twice():
    nested = rule("compile/one", supporting("first sign"), supporting("the first sign"))
    assert judged([nested], failure("the first sign")) == ["compile/one (possible)"]


def test_structure_lifts_a_shared_text_and_rules_it_out():
    inside = rule("compile/one", supporting("mismatch", inside=("torch/utils/checkpoint.py",)))
    there, elsewhere = Frame(file="/v/torch/utils/checkpoint.py"), Frame(file="/v/torch/nn/modules/linear.py")
    assert judged([inside], failure("mismatch", frames=(there,))) == ["compile/one (likely)"]
    assert judged([inside], failure("mismatch", frames=(elsewhere,))) == []
    assert judged([inside], failure("mismatch")) == ["compile/one (possible)"]


@pytest.mark.parametrize(
    ("restriction", "fits", "contradicts"),
    [
        ({"types": ("OSError",)}, {"type": "builtins.OSError"}, {"type": "KeyError"}),
        ({"kinds": ("build",)}, {"kind": "build"}, {"kind": "exception"}),
    ],
)
def test_a_restriction_must_not_be_contradicted(restriction, fits, contradicts):
    restricted = rule("compile/one", text("it broke", **restriction))
    assert judged([restricted], failure("it broke", **fits)) == ["compile/one (established)"]
    assert judged([restricted], failure("it broke", **contradicts)) == []


def test_a_text_anywhere_in_the_log_can_rule_it_out():
    ruled_out = rule("compile/one", text("Duplicate GPU", not_with=("MIG",)))
    assert judged([ruled_out], failure("Duplicate GPU"), failure("MIG is on", role="warning")) == []


def test_versions_that_the_log_shows_are_gates():
    gated = rule("compile/one", text("hit the limit", gates={"torch": ">=2.6"}))
    assert judged([gated], failure("hit the limit"), versions={"torch": "2.5.1+cu124"}) == []
    assert judged([gated], failure("hit the limit"), versions={"torch": "2.6.0"}) == ["compile/one (established)"]
    assert judged([gated], failure("hit the limit")) == ["compile/one (established)"]


def test_structure_comes_before_wording():
    def seen(log):
        return Sighting(message="Counted.", evidence=(Evidence(what="x"),), failure=log.failures[0])

    by_text = rule("compile/text", text("a long and very specific text"))
    by_structure = rule("launcher/structure", from_log=seen)
    assert judged([by_text, by_structure], failure("a long and very specific text")) == [
        "launcher/structure (established)"
    ]


def test_a_sighting_stands_for_all_ranks_that_say_the_same():
    def seen(log):
        return Sighting(message="Counted.", evidence=(Evidence(what="x"),), failure=log.failures[0])

    rules = [rule("compile/text", text("rank died")), rule("launcher/structure", from_log=seen)]
    ranks = [failure(f"rank died at step {number}", rank=number) for number in range(3)]
    assert judged(rules, *ranks) == ["launcher/structure (established)"]


def test_a_closer_possibility_stands_before_what_is_certain():
    def seen(log):
        return Sighting(
            message="Perhaps.", evidence=(Evidence(what="x"),), failure=log.failures[0], confidence="possible"
        )

    rules = [rule("compile/text", text("it timed out")), rule("launcher/closer", from_log=seen)]
    assert judged(rules, failure("it timed out")) == ["launcher/closer (possible)", "compile/text (established)"]


def test_roots_come_before_what_follows_and_warnings_last():
    rules = [
        rule("compile/warned", text("be careful")),
        rule("launcher/waited", text("the others waited")),
        rule("environment/root", text("it broke")),
    ]
    failures = (
        failure("be careful", role="warning"),
        failure("the others waited", role="cascade"),
        failure("it broke"),
    )
    findings = judge_log(Log(failures=failures), rules)
    assert [finding.rule for finding in findings] == ["environment/root", "launcher/waited", "compile/warned"]
    assert [finding.follows for finding in findings] == [None, "environment/root", None]
    assert [finding.severity for finding in findings] == ["error", "error", "warning"]


def test_what_follows_from_an_unknown_root_is_no_finding():
    waited = rule("launcher/waited", text("the others waited"))
    cascade = failure("the others waited", role="cascade")
    assert judged([waited], failure("KeyError: 'labels'"), cascade) == []
    assert judged([waited], cascade) == ["launcher/waited (established)"], "without a root it is the first thing known"


def test_a_symptom_is_dropped_where_its_cause_is_found():
    rules = [
        rule("environment/cause", text("torch was replaced"), explains=("environment/symptom",)),
        rule("environment/symptom", text("undefined symbol"), residual=True),
    ]
    assert judged(rules, failure("undefined symbol"), failure("torch was replaced")) == [
        "environment/cause (established)"
    ]


def test_evidence_names_line_and_ranks():
    one = rule("compile/one", text("it broke"))
    log = Log(
        failures=(
            Failure(
                kind="exception", role="root", type="OSError", message="line one\nit broke", first_line=7, last_line=8
            ),
            Failure(
                kind="exception", role="root", message="it broke", rank=3, first_line=20, last_line=20, source="r3.log"
            ),
        ),
        sources=("a.log", "r3.log"),
    )
    evidence = judge_log(log, [one])[0].evidence
    assert [(each.at, each.ranks) for each in evidence] == [("log:8", (3,))]


def test_a_rule_that_breaks_costs_nothing_else():
    def broken(log):
        raise ZeroDivisionError

    rules = [rule("compile/broken", from_log=broken), rule("compile/one", text("it broke"))]
    assert judged(rules, failure("it broke")) == ["compile/one (established)", f"{RULE_FAILED} (established)"]
