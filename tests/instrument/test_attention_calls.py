"""Attention is counted where training runs it forward, not where an evaluation, a teacher or a checkpoint runs it."""

from __future__ import annotations

import pytest
from forked_jobs import Order, run_jobs

NAMES = (
    "trained_alone",
    "evaluated_in_the_step",
    "beside_a_teacher",
    "checkpointed",
    "checkpointed_the_old_way",
    "compiled",
)
WITHOUT_FLASH = {"restricted_all_the_time": ["MATH"], "switched_off": None}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory):
    orders = [Order(name, f"known_attention.{name}") for name in (*NAMES, *WITHOUT_FLASH)]
    return run_jobs(tmp_path_factory.mktemp("attention") / "run", orders)


@pytest.mark.parametrize("name", NAMES)
def test_calls_of_one_training_step(name, done):
    job = done[name]
    assert set(job.exits) == {0}
    last = job.record.samples[-1]
    assert last.kernels == job.result
    assert job.record.actual.attention.fused_fraction == 1.0


@pytest.mark.parametrize("name", WITHOUT_FLASH)
def test_a_context_around_all_steps_is_what_the_code_asked_for(name, done):
    record = done[name].record
    assert record.samples[-1].kernels == done[name].result
    assert record.actual.attention.toggles["flash"] is False
    assert record.requested.get("attention", {}).get("backends") == WITHOUT_FLASH[name]
