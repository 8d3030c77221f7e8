"""What a run of a candidate shows, observed and not."""

from __future__ import annotations

import pytest

from trueup.procedures.bisection.signatures import signature_of
from trueup.procedures.reproduction.judging import judged, judged_plainly
from trueup.schema.bisection import Signature
from trueup.schema.finding import Finding
from trueup.schema.record import Exit, Rank, Record

RULE = Finding(
    rule="compile/x", layers=("compile",), severity="warning", confidence="established", message="lost", cause="so"
)


def ended(error: str | None = None, code: int = 0, findings: tuple[Finding, ...] = ()) -> Record:
    return Record(exit=Exit(code=code), ranks=(Rank(rank=0, error=error),), findings=findings)


ASSERTED = "AssertionError: ran eager: {'Block'}"
LOST = Signature(kind="finding", text="lost", rule="compile/x")


def test_the_same_exception_fails_and_another_tells_nothing() -> None:
    broken = ended("ValueError: unit 3 holds both kinds\nat train.py:9", 1)
    signature = signature_of(broken)
    assert signature is not None
    assert judged(signature, ended("ValueError: unit 5 holds both kinds\nat repro.py:3", 1), False)[0] == "fails"
    assert judged(signature, ended("KeyError: 'x'", 1), False)[0] == "unresolved"
    assert judged(signature, ended(), False)[0] == "passes"


@pytest.mark.parametrize(
    ("record", "outcome"),
    [
        (ended(ASSERTED, 1, (RULE,)), "fails"),
        (ended(ASSERTED, 1), "unresolved"),
        (ended(findings=(RULE,)), "unresolved"),
        (ended("KeyError: 'x'", 1, (RULE,)), "unresolved"),
        (ended(), "passes"),
    ],
)
def test_a_finding_needs_the_scripts_own_assertion(record: Record, outcome: str) -> None:
    assert judged(LOST, record, True)[0] == outcome


def test_a_finding_that_no_script_can_test_is_seen_by_trueup() -> None:
    assert judged(LOST, ended(findings=(RULE,)), False)[0] == "fails"
    assert judged_plainly(LOST, 0, "", tests=False)[0] == "unresolved"


def test_without_trueup_the_printed_error_tells() -> None:
    signature = signature_of(ended("ValueError: unit 3 holds both kinds", 1))
    assert signature is not None
    printed = "Traceback (most recent call last):\n[rank0]: ValueError: unit 4 holds both kinds\n"
    assert judged_plainly(signature, 1, printed, False)[0] == "fails"
    assert judged_plainly(signature, 1, "KeyError: 'x'\n", False)[0] == "unresolved"
    assert judged_plainly(signature, 0, "", False)[0] == "passes"
    assert judged_plainly(LOST, 1, f"{ASSERTED}\n", True)[0] == "fails"
    assert judged_plainly(LOST, 1, "KeyError: 'x'\n", True)[0] == "unresolved"


def test_a_hang_is_one_only_when_the_time_is_over() -> None:
    hang = Signature(kind="hang", text="hangs")
    assert judged_plainly(hang, 124, "", False)[0] == "fails"
    assert judged_plainly(hang, 1, "", False)[0] == "unresolved"
    assert judged_plainly(hang, 0, "", False)[0] == "passes"
