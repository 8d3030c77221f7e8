"""What `--fails-when` takes, what it refuses, and which runs it then finds."""

from __future__ import annotations

import msgspec
import pytest
from made_up_jobs import crashed, found, well

from trueup.procedures.bisection.fails_when import FaultError, signature_from
from trueup.procedures.bisection.oracle import Oracle

RULE = "compile/recompile-per-layer-attribute"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "foo",
        "OOM",
        "hang:5",
        "exit:abc",
        "exit:0",
        "exit:999",
        "loss>",
        "loss>-1",
        "loss>nan",
        "slower>inf",
        "slower>0",
        "bogus<90%",
        "compile<190%",
        "compile<0%",
        "compile>5",
        "compile/none-such",
    ],
)
def test_what_no_run_can_show_is_refused(text: str) -> None:
    with pytest.raises(FaultError):
        signature_from(text)


@pytest.mark.parametrize(("text", "share"), [("compile<90%", 0.9), ("compile<0.9", 0.9), ("compile<1%", 0.01)])
def test_a_share_is_of_the_model(text: str, share: float) -> None:
    assert signature_from(text).threshold == pytest.approx(share)


def test_an_exit_code_is_that_code_whatever_ended_the_process() -> None:
    failed = crashed("RuntimeError: no")
    assert Oracle(signature_from("exit:1")).outcome(failed)[0] == "fails"
    assert Oracle(signature_from("exit")).outcome(failed)[0] == "fails"
    assert Oracle(signature_from("exit:13")).outcome(failed)[0] == "unresolved"
    assert Oracle(signature_from("exit:1")).outcome(well())[0] == "passes"


def test_a_rule_that_is_named_is_found_also_as_a_note() -> None:
    note = msgspec.structs.replace(found(RULE, "compile"), severity="note")
    assert Oracle(signature_from(RULE)).outcome(well(note))[0] == "fails"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("error:CUDA error", "exception"),
        ("error", "exception"),
        ("exit:3", "exit"),
        ("hang", "hang"),
        ("oom", "memory"),
        ("nan", "not finite"),
        ("loss", "loss"),
        ("loss>0.01", "loss"),
        ("slower > 1.3", "slow"),
        ("compile<90%", "coverage"),
        ("attention<0.5", "coverage"),
        ("compile/recompile-per-layer-attribute", "finding"),
    ],
)
def test_a_fault_can_be_named(text: str, kind: str) -> None:
    signature = signature_from(text)
    assert signature.kind == kind
    assert signature.given


def test_a_given_error_is_found_by_its_text() -> None:
    oracle = Oracle(signature_from("error:same dtype"))
    assert oracle.outcome(crashed("RuntimeError: expected the same DTYPE"))[0] == "fails"
    assert oracle.outcome(crashed("RuntimeError: something else"))[0] == "unresolved"
    assert oracle.outcome(well())[0] == "passes"
