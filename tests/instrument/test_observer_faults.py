"""An observer that fails, when it is attached or later on, costs what it would have said and nothing else."""

from __future__ import annotations

import pytest
from forked_jobs import Order, run_jobs
from observer_names import INNER, OBSERVERS, PARTS

ALL = tuple(dict.fromkeys(OBSERVERS + PARTS + INNER))
LATER = ("process", "libraries", "steps", "compile_trace", *PARTS, *INNER)
"""Those that this job calls more than once."""
FAULTS = [*ALL, *(f"{name}:2" for name in LATER if name not in ("model", "sampling")), "sampling:4", "all"]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory):
    order = Order("plain", "everything.train")
    return run_jobs(tmp_path_factory.mktemp("plain") / "run", [order], observed=False)["plain"]


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory):
    orders = [Order(fault, "everything.train", variables={"TRUEUP_FAULTS": fault}) for fault in ["", *FAULTS, "events"]]
    return run_jobs(tmp_path_factory.mktemp("faulty") / "run", orders, start_in_child=True)


@pytest.mark.parametrize("fault", FAULTS)
def test_the_job_is_not_harmed_and_the_record_names_who_is_off(fault, plain, faulty):
    done = faulty[fault]
    assert done.exits == (0,)
    assert done.result == plain.result
    off = {event["observer"] for event in done.of("observer-off")}
    names = set(ALL) if fault == "all" else {fault.partition(":")[0]}
    assert off == (off & names if fault == "all" else names)
    for name in off:
        assert f"An observer switched itself off: {name}: RuntimeError: fault injected into {name}" in done.notes


def test_all_of_them_are_off_when_all_fail(faulty):
    assert set(OBSERVERS) <= {event["observer"] for event in faulty["all"].of("observer-off")}


def test_without_a_fault_nothing_is_off(plain, faulty):
    done = faulty[""]
    assert done.result == plain.result
    assert done.of("observer-off") == []
    assert done.record.steps.count == 8
    assert done.record.actual.compile.blocks.compiled == 2


@pytest.mark.parametrize("fault", [name for name in ALL if name != "steps"])
def test_the_other_observers_go_on(fault, faulty):
    steps = faulty[fault].record.steps
    assert steps.count == 8
    assert (steps.losses[-1] is None) == (fault == "losses")


def test_a_file_that_takes_no_event_is_no_harm(plain, faulty):
    done = faulty["events"]
    assert (done.exits, done.result) == ((0,), plain.result)
    assert all(log.events == [] for log in done.events.processes)
