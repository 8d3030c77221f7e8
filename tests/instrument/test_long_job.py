"""A job of many steps: what the observers hold does not grow, what they write grows ever more slowly."""

from __future__ import annotations

import pytest
from forked_jobs import Done, Order, run_jobs

STEPS = 10_000
MEASURED_AT = [2_000, STEPS]
KIB = 1 << 10


ORDER = Order("long", "long.train", {"steps": STEPS, "measured_at": MEASURED_AT, "package": "trueup_instrument"})


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Done:
    return run_jobs(tmp_path_factory.mktemp("observed") / "run", [ORDER])["long"]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Done:
    return run_jobs(tmp_path_factory.mktemp("alone") / "run", [ORDER], observed=False)["long"]


def test_what_the_observers_hold_stays_the_same(observed: Done, alone: Done) -> None:
    early, late = observed.result["held"]
    assert early > 0
    assert late - early < 64 * KIB  # rows of steps that are not yet written
    assert alone.result["held"] == [0, 0]


def test_the_process_grows_no_more_than_alone(observed: Done, alone: Done) -> None:
    grown, grown_alone = (late - early for early, late in (observed.result["resident"], alone.result["resident"]))
    assert grown - grown_alone < 4 * KIB * KIB


def test_every_step_counts_and_ever_fewer_are_written(observed: Done) -> None:
    record = observed.record
    assert record.steps.count == STEPS
    assert record.steps.stride == 4
    assert len(record.steps.seconds) == STEPS // 4
    assert 3 < len(record.samples) < 20
    assert sum(len(event["seconds"]) for event in observed.of("steps")) == 6_500
