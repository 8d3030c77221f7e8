"""Objects of the user's that fail or speak when they are asked for something are not asked."""

from __future__ import annotations

import pytest
from forked_jobs import Done, Order, run_jobs


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    orders = [Order(name, f"hostile.{name}") for name in ("attributes", "complex_loss")]
    return run_jobs(tmp_path_factory.mktemp("hostile") / "run", orders, start_in_child=True)


def test_no_attribute_of_a_module_or_optimizer_is_asked_for_but_by_the_job(done: dict[str, Done]) -> None:
    job = done["attributes"]
    assert job.exits == (0,)
    assert job.result["asked"] == []
    assert job.of("observer-off") == []
    assert job.of("model")[-1]["blocks"]["total"] == 2
    assert job.of("sample")[-1]["checkpointing"]["function"] == "Loud"


def test_complex_parameters_are_observed(done: dict[str, Done]) -> None:
    job = done["attributes"]
    assert job.record.steps.grad_norms == pytest.approx(job.result["norms"], rel=1e-4)
    assert set(job.record.actual.precision.matmul) == {"float32", "complex64"}


def test_a_complex_loss_is_no_number_to_record(done: dict[str, Done]) -> None:
    job = done["complex_loss"]
    assert job.of("observer-off") == []
    assert job.record.steps.count == 3
    assert job.record.steps.losses == (None,) * 3
