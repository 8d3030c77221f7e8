"""`--steps N`: every rank ends after exactly N optimizer steps, and that is a success, whatever the program catches."""

from __future__ import annotations

from pathlib import Path

import pytest
from forked_jobs import Done, Order, run_jobs

LIMIT = 3
JOBS = (
    "plain",
    "catches_exceptions",
    "catches_everything",
    "workers",
    "accumulates",
    "two_optimizers",
    "compiled_optimizer",
    "accelerated",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("limited") / "run"


@pytest.fixture(scope="module")
def done(folder: Path) -> dict[str, Done]:
    def order(name: str, **options: object) -> Order:
        variables = {"TRUEUP_STEPS": str(LIMIT), "COUNTS": str(folder / f"{name}-count")}
        return Order(name, f"limited.{name}", variables=variables, **options)  # type: ignore[arg-type]

    orders = [order(name) for name in (*JOBS, "in_thread")]
    orders += [order("catches_everything_around_the_loop"), order("replicated", ranks=2)]
    orders += [order("trainer", arguments={"folder": str(folder / "trainer")})]
    return run_jobs(folder, orders, start_in_child=True)


def made(folder: Path, name: str, rank: int = 0) -> int:
    return int((folder / f"{name}-count-{rank}").read_text())


@pytest.mark.parametrize("name", [*JOBS, "replicated", "trainer", "catches_everything_around_the_loop"])
def test_every_rank_ends_after_exactly_that_many_steps(name: str, done: dict[str, Done], folder: Path) -> None:
    job = done[name]
    assert set(job.exits) == {0}
    for rank in range(len(job.exits)):
        assert made(folder, name, rank) == LIMIT
        (end,) = job.of("end", rank)
        assert (end["steps"], end["reason"]) == (LIMIT, "steps reached")
    assert job.record.steps.count == LIMIT
    assert len(job.record.steps.losses) == LIMIT
    assert job.notes == ""


def test_the_last_step_was_sampled(done: dict[str, Done]) -> None:
    """A short probe is to tell as much as a long run."""
    assert [sample["step"] for sample in done["plain"].of("sample")][-1] == LIMIT


def test_a_program_that_swallows_the_end_goes_on_to_its_own(done: dict[str, Done]) -> None:
    assert done["catches_everything_around_the_loop"].result == "saved"
    assert done["catches_everything"].result is None


def test_what_was_printed_is_not_lost(done: dict[str, Done], folder: Path) -> None:
    assert "buffered until the end\nswallowed\n" in (folder / "output.txt").read_text()


def test_a_thread_that_trains_ends_without_an_error(done: dict[str, Done], folder: Path) -> None:
    job = done["in_thread"]
    assert (job.exits, made(folder, "in_thread")) == ((0,), LIMIT)
    assert job.of("error") == []
    assert "StepsReached" not in (folder / "output.txt").read_text()
