"""What a fault looks like, and when another run shows the same one."""

from __future__ import annotations

import pytest
from made_up_jobs import crashed, found, hung, well

from trueup.procedures.bisection.fails_when import signature_from
from trueup.procedures.bisection.oracle import Oracle
from trueup.procedures.bisection.signatures import signature_of
from trueup.schema.bisection import Signature
from trueup.schema.record import Exit, Rank, Record


def same(first: Record, second: Record) -> str:
    signature = signature_of(first)
    assert signature is not None
    return Oracle(signature).outcome(second)[0]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            "RuntimeError: size 12 at 0x7f01 of '/tmp/a/x.py' is wrong here",
            "RuntimeError: size 9 at 0xfe2 of '/b/x.py' is wrong here",
        ),
        ("torch.OutOfMemoryError: CUDA out of memory. 2 GiB", "torch.OutOfMemoryError: CUDA out of memory. 3 GiB"),
        (
            "AssertionError: mixed kinds of parameters: {Tensor, DTensor}",
            "AssertionError: mixed kinds of parameters: {DTensor, Tensor}",
        ),
        ("builtins.ValueError: no such thing is there", "ValueError: no such thing is there"),
    ],
)
def test_what_differs_between_runs_of_one_fault_is_not_compared(first: str, second: str) -> None:
    assert same(crashed(first), crashed(second)) == "fails"


@pytest.mark.parametrize(
    "other",
    ["TypeError: size 12 is wrong here", "RuntimeError: another thing is wrong here", "KeyError: 'size'"],
)
def test_another_error_is_another_fault(other: str) -> None:
    assert same(crashed("RuntimeError: size 12 is wrong here"), crashed(other)) == "unresolved"


def test_a_message_that_says_little_is_told_by_its_place() -> None:
    first = crashed("AssertionError", "torch/a.py:10", "train.py:3")
    assert same(first, crashed("AssertionError", "torch/a.py:10", "train.py:9")) == "fails"
    assert same(first, crashed("AssertionError", "torch/b.py:10", "train.py:3")) == "unresolved"


def test_a_rank_that_lost_the_others_is_not_the_one_that_failed() -> None:
    lost = Rank(rank=0, error="RuntimeError: Connection closed by peer [127.0.0.1]:1234")
    own = Rank(rank=1, error="ValueError: the batch of this rank is empty")
    signature = signature_of(Record(exit=Exit(code=1), ranks=(lost, own)))
    assert signature is not None
    assert signature.exception == "ValueError"


def test_a_hang_an_exit_code_and_no_memory_are_kinds_of_their_own() -> None:
    assert signature_of(hung()) == Signature(kind="hang", text="the job was still running when its time was over")
    assert same(hung(), well()) == "passes"
    assert same(hung(), crashed("ValueError: x")) == "unresolved"
    assert same(crashed("ValueError: no such thing is there"), hung()) == "unresolved"
    killed = Record(exit=Exit(code=137, signal="SIGKILL"))
    assert same(killed, killed) == "fails"
    assert same(crashed("MemoryError: not enough memory: you tried to allocate 9 bytes"), killed) == "fails"
    assert same(Record(exit=Exit(code=3)), Record(exit=Exit(code=4))) == "fails"
    assert same(Record(exit=Exit(code=3)), crashed("ValueError: x")) == "unresolved"


def test_the_worst_is_told_first() -> None:
    nan = well(found("compile/x", "compile"), losses=[1.0, 2.0])
    assert signature_of(nan).kind == "finding"  # type: ignore[union-attr]
    assert signature_of(well()) is None
    other = well(losses=[9.0, 8.0, 7.0])
    assert signature_of(other, [well(), well()]).kind == "loss"  # type: ignore[union-attr]
    assert signature_of(well(), [well(), well()]) is None


def test_lost_coverage_counts_only_where_the_layer_is_on() -> None:
    import msgspec

    oracle = Oracle(signature_from("compile<0.9"))
    record = well()
    half = msgspec.structs.replace(record.actual.compile, fraction=0.5)
    actual = msgspec.structs.replace(record.actual, compile=half)
    on = msgspec.structs.replace(record, actual=actual)
    assert oracle.outcome(on)[0] == "fails"
    assert oracle.outcome(msgspec.structs.replace(on, variant={"layers": {"compile": "eager"}}))[0] == "fails"
    assert oracle.outcome(msgspec.structs.replace(on, variant={"layers": {"compile": "off"}}))[0] == "passes"
    assert oracle.outcome(record)[0] == "unresolved"
