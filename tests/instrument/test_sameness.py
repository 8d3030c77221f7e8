"""A/A: a job computes the same, bit for bit, and Dynamo makes the same of it, with and without observation."""

from __future__ import annotations

import pytest
from forked_jobs import Done, Order, run_jobs

JOBS = (
    Order("eager", "sameness.eager"),
    Order("compiled_blocks", "sameness.compiled_blocks"),
    Order("compiled_by_inductor", "sameness.compiled_by_inductor"),
    Order("compiled_model", "sameness.compiled_model"),
    Order("compiled_training_step", "sameness.compiled_training_step"),
    Order("compiled_optimizer", "sameness.compiled_optimizer"),
    Order("checkpointed", "sameness.checkpointed", {"use_reentrant": False}),
    Order("checkpointed_reentrant", "sameness.checkpointed", {"use_reentrant": True}),
    Order("accumulated", "sameness.accumulated"),
    Order("scaled", "sameness.scaled"),
    Order("replicated", "sameness.replicated", ranks=2),
    Order("sharded", "sameness.sharded", ranks=2),
    Order("trainer", "sameness.trainer", {"folder": "trainer"}),
)
NAMES = [order.name for order in JOBS]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    return run_jobs(tmp_path_factory.mktemp("plain") / "run", JOBS, observed=False)


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    return run_jobs(tmp_path_factory.mktemp("observed") / "run", JOBS)


@pytest.mark.parametrize("name", NAMES)
def test_a_job_computes_the_same(name: str, plain: dict[str, Done], observed: dict[str, Done]) -> None:
    assert observed[name].exits == plain[name].exits == (0,) * len(plain[name].exits)
    assert observed[name].results == plain[name].results


@pytest.mark.parametrize("name", NAMES)
def test_it_was_looked_at_closely_meanwhile(name: str, observed: dict[str, Done]) -> None:
    """Else the equality above would prove nothing."""
    done = observed[name]
    for rank in range(len(done.exits)):
        samples = done.of("sample", rank)
        assert any(sample["watched"] and sample["recorded"] for sample in samples)
        assert done.of("observer-off", rank) == []
    assert done.record.steps.count >= 7
