"""Random numbers drawn in a step, and those that a checkpoint's recomputation drew again."""

from __future__ import annotations

import pytest
from forked_jobs import Order, run_jobs

NAMES = ("dropout_of_nothing", "dropout_outside", "dropout_inside", "attention_with_dropout")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory):
    orders = [Order(name, f"known_randomness.{name}") for name in NAMES]
    return run_jobs(tmp_path_factory.mktemp("randomness") / "run", orders)


@pytest.mark.parametrize("name", NAMES)
def test_draws_are_counted_once_and_those_in_backward_apart(name, done):
    job = done[name]
    assert set(job.exits) == {0}
    seen = job.record.actual.checkpointing
    assert seen.without_rng_state == 2
    assert {"all": seen.random_ops, "again": seen.random_again} == job.result
