"""Observation changes neither what a program prints nor what it may do with the observed functions."""

import json
import sys

import pytest
from observed_jobs import Process

OBSERVERS = (
    "libraries",
    "launchers",
    "compile_setup",
    "distributed",
    "data_parallel",
    "fsdp",
    "tensor_parallel",
    "activation_checkpointing",
    "mixed_precision",
    "optimizers",
    "moves",
    "state_dicts",
    "accelerate",
    "transformers",
    "peft",
)
SPOKEN_BY_THE_JOB = {
    "compile_setup",
    "activation_checkpointing",
    "mixed_precision",
    "optimizers",
    "moves",
    "state_dicts",
}


@pytest.fixture(scope="module")
def unobserved(run_job):
    return run_job(sys.executable, "plain_torch.py", observed=False).stdout


def test_signatures_pickling_and_subclassing_are_as_without_observation(run_job):
    observed = run_job(sys.executable, "contracts.py")
    plain = run_job(sys.executable, "contracts.py", observed=False)
    assert Process(observed.of("rank")).switched_off == {}
    assert json.loads(observed.stdout) == json.loads(plain.stdout)


def test_the_program_prints_the_same_when_observed(run_job, unobserved):
    assert run_job(sys.executable, "plain_torch.py").stdout == unobserved


def test_observers_that_cannot_attach_leave_the_program_alone_and_say_so(run_job, unobserved):
    observed = run_job(sys.executable, "plain_torch.py", TRUEUP_FAULTS=",".join(OBSERVERS))
    assert observed.stdout == unobserved
    # Without `libraries` nothing opens the file at the import of torch: the first backward pass does.
    assert set(Process(observed.of("rank")).switched_off) >= set(OBSERVERS)


def test_observers_that_fail_when_they_have_something_to_say_leave_the_program_alone(run_job, unobserved):
    observed = run_job(sys.executable, "sabotaged.py", "plain_torch.py")
    assert observed.stdout == unobserved
    switched_off = Process(observed.of("rank")).switched_off
    assert set(switched_off) == SPOKEN_BY_THE_JOB
    assert all("ZeroDivisionError: sabotaged at sabotaged.py" in error for error in switched_off.values())
