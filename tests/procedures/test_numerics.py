"""When two runs compute the same."""

from __future__ import annotations

import msgspec
import pytest
from records import LOSSES, record

from trueup.procedures.numerics import compared, difference
from trueup.schema.record import Actual, Loop, Precision, Rank, Record, Sharding


def in_dtype(made: Record, name: str) -> Record:
    return msgspec.structs.replace(made, actual=Actual(precision=Precision(matmul={name: 1.0})))


def test_equal_losses_are_equal() -> None:
    assert compared(record(), record()).verdict == "equal"


@pytest.mark.parametrize(("dtype", "off", "verdict"), [
    ("float32", 1e-6, "equal"),
    ("float32", 2e-3, "different"),
    ("bfloat16", 1e-3, "equal"),
    ("bfloat16", 4e-3, "different"),
])  # fmt: skip
def test_the_tolerance_goes_by_the_dtype_of_the_multiplications(dtype: str, off: float, verdict: str) -> None:
    other = record(losses=[loss * (1 + off) for loss in LOSSES])
    assert compared(in_dtype(record(), dtype), in_dtype(other, dtype)).verdict == verdict


def test_a_gradient_norm_that_differs_is_a_difference() -> None:
    told = compared(record(norms=[1.0] * 8), record(norms=[1.0] * 7 + [2.0]))
    assert told.verdict == "different"
    assert "the first at step 8" in told.why


def test_what_only_one_run_knows_is_not_compared() -> None:
    assert difference(record(norms=[1.0, None]), record(norms=[None, 3.0])) == (8, 0.0)
    assert compared(record(losses=()), record()).verdict == "not compared"


def test_a_loss_that_is_no_number_in_one_run_only_is_a_difference() -> None:
    made = record(losses=[*LOSSES[:-1], None])
    broken = msgspec.structs.replace(made, steps=msgspec.structs.replace(made.steps, not_finite=(8,)))
    assert compared(record(), broken).verdict == "different"
    assert compared(broken, broken).verdict == "equal"


def test_the_noise_of_the_job_is_allowed_for() -> None:
    other = record(losses=[loss * 1.01 for loss in LOSSES])
    noisy = record(losses=[loss * 0.99 for loss in LOSSES])
    assert compared(record(), other).verdict == "different"
    assert compared(record(), other, noisy).verdict == "within noise"
    assert "set its seeds" in compared(record(), other, noisy).why


def test_gradient_norms_of_other_shards_are_not_compared() -> None:
    def sharded(made: Record, units: int) -> Record:
        return msgspec.structs.replace(made, actual=Actual(sharding=Sharding(strategy="FSDP2", units=units)))

    one, other = record(norms=[1.0] * 8), record(norms=[2.0] * 8)
    assert compared(sharded(one, 1), sharded(other, 5)).verdict == "equal"
    assert compared(sharded(one, 5), sharded(other, 5)).verdict == "different"


def test_losses_of_a_failed_run_count_until_its_ranks_were_in_different_steps() -> None:
    ranks = tuple(
        Rank(rank=rank, steps=8, loops=(Loop(batches=batches, steps=batches, at="train.py:9", number=1),))
        for rank, batches in enumerate((6, 5))
    )
    off = record(losses=[*LOSSES[:5], 9.0, 9.0, 9.0], code=1)
    assert compared(off, record()).verdict == "different"
    told = compared(msgspec.structs.replace(off, ranks=ranks), record())
    assert (told.verdict, told.steps) == ("equal", 5)
    early = record(losses=[*LOSSES[:4], 9.0, 9.0, 9.0, 9.0], code=1)
    assert compared(msgspec.structs.replace(early, ranks=ranks), record()).verdict == "different"
    copes = msgspec.structs.replace(off, ranks=ranks, exit=record().exit)
    assert compared(copes, record()).verdict == "different"
