"""In runs that are compared, the record knows how the parameters have moved; in others nothing is kept of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from forked_jobs import Done, Order, run_jobs

WATCHED = {"TRUEUP_DRIFT": "1"}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    folder: Path = tmp_path_factory.mktemp("drift") / "run"
    orders = [
        Order("plain", "known_drift.plain", variables=WATCHED),
        Order("two_optimizers", "known_drift.two_optimizers", variables=WATCHED),
        Order("sharded", "known_drift.sharded", ranks=2, variables=WATCHED),
        Order("ends_at_three", "known_drift.plain", variables={**WATCHED, "TRUEUP_STEPS": "3"}),
        Order("not_compared", "known_drift.plain"),
    ]
    return run_jobs(folder, orders, start_in_child=True)


@pytest.mark.parametrize("name", ["plain", "two_optimizers", "sharded"])
def test_the_drift_is_that_of_the_parameters_held_here(name: str, done: dict[str, Done]) -> None:
    job = done[name]
    assert set(job.exits) == {0}
    drifts = job.record.steps.drifts
    assert [(drift.rank, drift.step) for drift in drifts] == [(r, s) for r in range(len(job.exits)) for s in (1, 2, 4)]
    known = drifts[1:] if name == "two_optimizers" else drifts  # at first it is not known that another one's turn comes
    for drift in known:
        assert drift.changes == pytest.approx(job.results[drift.rank][str(drift.step)], rel=1e-4, abs=1e-7)


def test_the_last_step_of_a_limited_run_is_told(done: dict[str, Done]) -> None:
    assert [drift.step for drift in done["ends_at_three"].record.steps.drifts] == [1, 2, 3]


def test_a_plain_run_tells_none(done: dict[str, Done]) -> None:
    assert done["not_compared"].record.steps.count == 5
    assert done["not_compared"].of("drift") == []
