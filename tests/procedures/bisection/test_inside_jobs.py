"""What lies within a layer of real jobs: each run is a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from descents import Descent

from trueup.procedures.bisection.inside import adapter, checkpointing, data, precision, ranks, sharding


def test_a_job_that_needs_two_ranks(tmp_path: Path) -> None:
    job = Descent(tmp_path, "two_ranks.py", ranks=2)
    (found,) = ranks.narrow(job.trials, job.base, job.record)
    assert (found.answer, job.trials.runs) == ("needs two", 2)


def test_a_batch_without_labels(tmp_path: Path) -> None:
    job = Descent(tmp_path, "odd_batch.py", "--fault", "labels")
    found = next(data.narrow(job.trials, job.base, job.record))
    assert found.answer == "batch 6 of 2x24, those before of 2x24"


@pytest.mark.slow
def test_a_batch_without_labels_among_four_of_a_step(tmp_path: Path) -> None:
    job = Descent(tmp_path, "odd_batch.py", "--fault", "labels", "--accumulate", "4")
    batch, length = data.narrow(job.trials, job.base, job.record)
    assert batch.answer == "batch 6 of 2x24, those before of 2x24"
    assert length.answer == "any: 8 tokens are enough"


@pytest.mark.slow
def test_a_sequence_beyond_the_positions_of_the_model(tmp_path: Path) -> None:
    job = Descent(tmp_path, "odd_batch.py", "--fault", "length")
    batch, length = data.narrow(job.trials, job.base, job.record)
    assert (batch.answer, length.answer) == ("batch 6 of 2x64, those before of 2x24", "49 tokens")


@pytest.mark.slow
def test_a_second_length(tmp_path: Path) -> None:
    job = Descent(tmp_path, "odd_batch.py", "--fault", "change")
    batch, length = data.narrow(job.trials, job.base, job.record)
    assert batch.answer == "batch 6 of 2x40, those before of 2x24, after those before"
    assert length.answer == "25 tokens"


@pytest.mark.slow
def test_a_step_whatever_its_batch(tmp_path: Path) -> None:
    job = Descent(tmp_path, "odd_batch.py", "--fault", "count")
    (batch,) = data.narrow(job.trials, job.base, job.record)
    assert batch.answer == "no one batch: it fails at batch 8, whatever that is"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (("--cast",), "layers.2.norm in float16"),
        ((), "layers.2.up, layers.2.norm in float16"),  # autocast: the norm squares what it is given
    ],
)
def test_the_modules_that_overflow_in_float16(tmp_path: Path, arguments: tuple[str, ...], answer: str) -> None:
    job = Descent(tmp_path, "overflowing_module.py", *arguments)
    (found,) = precision.narrow(job.trials, job.base, job.record)
    assert (found.what, found.answer) == ("modules", answer)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fsdp1", "fsdp2"])
def test_the_unit_with_parameters_of_two_dtypes(tmp_path: Path, kind: str) -> None:
    job = Descent(tmp_path, "mixed_unit.py", "--kind", kind, ranks=2)
    strategy, unit = sharding.narrow(job.trials, job.base, job.record)
    assert strategy.answer == "the units and hooks of FSDP, also where nothing is split"
    assert (unit.what, unit.answer) == ("unit", "layers.2")


@pytest.mark.slow
def test_the_block_that_saves_other_tensors_when_it_runs_again(tmp_path: Path) -> None:
    job = Descent(tmp_path, "checkpointed_state.py")
    implementation, blocks = checkpointing.narrow(job.trials, job.base, job.record)
    assert (implementation.answer, blocks.answer) == ("the non-reentrant one", "layers.2")


@pytest.mark.slow
def test_the_module_whose_adapter_is_infinite(tmp_path: Path) -> None:
    job = Descent(tmp_path, "adapted.py")
    (found,) = adapter.narrow(job.trials, job.base, job.record)
    assert "layers.1.down" in found.answer.split(", ")
