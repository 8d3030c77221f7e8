"""What a program does between two training steps goes on as it would alone, also while a sample is open."""

from __future__ import annotations

import pytest
from forked_jobs import Done, Order, run_jobs

NAMES = ("let_go", "long_evaluation", "long_evaluation_and_no_module")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    orders = [Order(name, f"open_sample.{name}") for name in NAMES]
    return run_jobs(tmp_path_factory.mktemp("open") / "run", orders)


@pytest.mark.parametrize("name", NAMES)
def test_the_job_ends_well(name: str, done: dict[str, Done]) -> None:
    assert done[name].exits == (0,)
    assert done[name].of("observer-off") == []


def test_a_model_that_the_program_lets_go_is_gone(done: dict[str, Done]) -> None:
    """Its memory is the program's to use again: for the next model, for an evaluation."""
    assert done["let_go"].result == [[True] * 3] * 4


def test_a_long_evaluation_is_not_recorded_to_its_end(done: dict[str, Done]) -> None:
    """Each operator that the profiler records takes memory."""
    assert done["long_evaluation"].result == [True, False]
    sample = done["long_evaluation"].of("sample")[0]
    assert (sample["step"], sample["watched"], sample["recorded"]) == (2, True, True)
    assert sample["modules"]["regions"] == 0
    assert {block["status"] for block in sample["modules"]["blocks"]} == {"eager"}
    assert sample["matmul"]["float32"] > 0


def test_training_that_was_not_recorded_is_not_claimed_to_be(done: dict[str, Done]) -> None:
    assert done["long_evaluation_and_no_module"].result == [True, False]
    assert done["long_evaluation_and_no_module"].of("sample")[0]["recorded"] is False
