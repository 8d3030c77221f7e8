"""What the program does with profilers and forks goes on as it would alone, also within a sampled step."""

from __future__ import annotations

import pytest
from forked_jobs import Done, Order, run_jobs

PROFILERS = (
    "torch_profiler_over_all_steps",
    "torch_profiler_from_the_middle",
    "torch_profiler_in_every_step",
    "torch_profiler_on_schedule",
    "python_profiler_in_every_step",
    "profile_function_over_all_steps",
    "profile_function_put_back",
)
FORKS = ("forks", "workers")
ORDERS = [Order(name, f"profiling.{name}") for name in (*PROFILERS, *FORKS, "threads")]
RECORDS = Order("records", "profiling.what_a_sample_records")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    return run_jobs(tmp_path_factory.mktemp("plain") / "run", ORDERS, observed=False)


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    return run_jobs(tmp_path_factory.mktemp("observed") / "run", [*ORDERS, RECORDS])


@pytest.mark.parametrize("name", PROFILERS + FORKS)
def test_the_program_sees_what_it_sees_alone(name: str, plain: dict[str, Done], observed: dict[str, Done]) -> None:
    done = observed[name]
    assert (done.exits, plain[name].exits) == ((0,), (0,))
    assert done.result == plain[name].result
    assert done.of("observer-off") == []
    assert done.record.steps.count == 8


def test_a_sample_records_operators_and_no_named_range(observed: dict[str, Done]) -> None:
    """A thread of gloo ends the range of a collective, perhaps after the profiler: the job would die of it."""
    names = observed["records"].result
    assert "aten::mm" in names
    assert "named by the user" not in names


@pytest.mark.parametrize("name", PROFILERS + FORKS)
def test_no_sample_claims_what_it_did_not_see(name: str, observed: dict[str, Done]) -> None:
    """All four blocks are compiled; a sample that lost sight of them says that it did."""
    samples = observed[name].of("sample")
    assert samples
    for sample in samples:
        if sample["watched"] and not sample["compiled_during"]:
            blocks = sample["modules"]["blocks"]
            assert [block["status"] for block in blocks] == ["compiled"] * 4


def test_samples_give_way_to_the_profiler_of_the_program(observed: dict[str, Done]) -> None:
    assert not any(sample["recorded"] for sample in observed["torch_profiler_over_all_steps"].of("sample"))
    assert not any(sample["watched"] for sample in observed["profile_function_over_all_steps"].of("sample"))
    assert not any(sample["watched"] for sample in observed["python_profiler_in_every_step"].of("sample"))


@pytest.mark.parametrize("name", FORKS)
def test_a_fork_costs_no_sample(name: str, observed: dict[str, Done]) -> None:
    assert all(sample["watched"] and sample["recorded"] for sample in observed[name].of("sample"))


def test_threads_that_train_at_once_are_not_harmed(plain: dict[str, Done], observed: dict[str, Done]) -> None:
    done = observed["threads"]
    assert (done.exits, done.result) == ((0,), plain["threads"].result)
    told = {event["observer"]: event["error"] for event in done.of("observer-off")}
    assert told.keys() <= {"steps", "sampling"}
    assert "only the steps of the first are counted" in told["steps"]


def test_children_are_clean(plain: dict[str, Done], observed: dict[str, Done]) -> None:
    assert all(told.startswith("True ") for told in observed["forks"].result[1])
    assert observed["workers"].result[1] == [True] * 16
