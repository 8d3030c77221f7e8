"""Lightning: the processes that it starts, and what its Trainer and Fabric were asked for."""

import sys

import pytest
from observed_jobs import Process, line_of

JOB = "lightning_trainer.py"


@pytest.fixture(scope="module")
def processes(run_job):
    """Those of rank 0 and of the process that it started."""
    found = [Process(events) for events in run_job(sys.executable, JOB).processes]
    return sorted(found, key=lambda process: not any(event["kind"] == "launcher" for event in process.events))


def test_the_processes_it_starts_are_told(processes):
    (told,) = [event for process in processes for event in process.events if event["kind"] == "launcher"]
    assert (told["name"], told["processes"], told["per_node"], told["nodes"]) == ("lightning", 2, 2, 1)
    assert len(processes) == 2
    assert [process.switched_off for process in processes] == [{}, {}]


def test_what_the_trainer_was_asked_for_is_told_where_it_fits(processes):
    for process in processes:
        assert ("DDP", "Trainer(strategy)") in process.requests("sharding", "strategy")
        assert ("bf16", "Trainer(precision)") in process.requests("precision", "dtype")
        fit = process.layer("Trainer.fit")
        assert (fit["module"], fit["at"]) == ("Line", line_of(JOB, "fit"))
        assert fit["detail"]["strategy"] == "DDPStrategy"
        assert (fit["detail"]["world_size"], fit["detail"]["accumulate_grad_batches"]) == (2, 2)


def test_what_a_fabric_was_asked_for_is_told(processes):
    fabric = processes[0].layer("Fabric")
    assert fabric["at"] == line_of(JOB, "fabric")
    assert (fabric["detail"]["strategy"], fabric["detail"]["precision"]) == ("SingleDeviceStrategy", "bf16-true")
    assert ("bf16", "Fabric(precision)") in processes[0].requests("precision", "dtype")
