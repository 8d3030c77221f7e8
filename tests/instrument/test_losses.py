"""Losses and gradient norms in the record are those that the job computes itself."""

from __future__ import annotations

import pytest
from forked_jobs import Order, run_jobs

ONE_PROCESS = (
    "plain",
    "accumulated",
    "two_optimizers",
    "one_after_the_other",
    "compiled_update",
)
FIRST_STEPS = 5
"""Of these the norm is always taken; of later ones when they are sampled."""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory):
    orders = [Order(name, f"known_losses.{name}") for name in (*ONE_PROCESS, "in_turn")]
    orders += [Order("scaled", "known_losses.scaled"), Order("overflowing", "known_losses.scaled", {"overflows": 2})]
    orders += [
        Order("scaled_and_fused", "known_losses.scaled", {"fused": True}),
        Order("sharded", "known_losses.sharded", ranks=2),
    ]
    return run_jobs(tmp_path_factory.mktemp("losses") / "run", orders)


@pytest.mark.parametrize("name", [*ONE_PROCESS, "scaled", "overflowing", "scaled_and_fused", "sharded"])
def test_losses_and_norms_are_those_of_the_job(name, done):
    job = done[name]
    assert set(job.exits) == {0}
    record = job.record
    assert record.steps.count == len(job.result["losses"])
    assert record.steps.losses == pytest.approx(job.result["losses"], rel=1e-6)
    assert record.actual.training.accumulation == job.result["backwards"]
    if job.result["norms"] is not None:
        assert all(norm is not None for norm in record.steps.grad_norms[:FIRST_STEPS])
        for found, wanted in zip(record.steps.grad_norms, job.result["norms"], strict=True):
            assert found is None or found == pytest.approx(wanted, rel=1e-4)


def test_steps_were_left_out(done):
    """Else the job named for it would prove nothing."""
    assert done["overflowing"].result["scale"] == done["scaled"].result["scale"] / 4


def test_optimizers_in_turn_make_one_step_together(done):
    """Only at the end of the first step it is not known yet that another optimizer's turn is still to come."""
    job = done["in_turn"]
    steps = job.record.steps
    assert steps.count == len(job.result["losses"])
    assert steps.losses[1:] == pytest.approx(job.result["losses"][1:], rel=1e-6)
    assert steps.grad_norms[:FIRST_STEPS] == pytest.approx(job.result["norms"][:FIRST_STEPS], rel=1e-4)
    assert job.record.actual.training.accumulation == 2
