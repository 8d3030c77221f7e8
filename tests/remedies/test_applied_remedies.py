"""What a remedy computes is what the job computes when it is as it should be; a healthy job is left alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from trueup.procedures.search import is_unchanged
from trueup.runs.run import run_command
from trueup.schema.record import Record
from trueup.schema.variant import Variant

JOBS = Path(__file__).parent / "jobs"
TORCHRUN = str(Path(sys.executable).parent / "torchrun")

PARALLEL = (
    "no-sync-while-accumulating",
    "call-the-wrapper",
    "one-parameter-dtype",
    "wrap-once",
    "shard-root",
    "register-forward-method",
)
OF_MODELS = (
    "tie-weights-again",
    "autocast-around-call",
    "train-mode",
    "existing-layer-class",
)
BF16 = 2e-2
"""Two runs of one program on one CPU agree to this: bf16 kernels of some CPUs do not repeat to the bit."""
IN_BF16 = {"evaluated_outside_of_autocast": BF16, "autocast_switched_off": BF16}


def ran(folder: Path, job: str, *arguments: str, ranks: int | None = None, remedies: tuple[str, ...]) -> Any:
    """(record, what it printed last) of a job under these remedies."""
    command = [sys.executable] if ranks is None else [TORCHRUN, "--standalone", f"--nproc-per-node={ranks}"]
    record = run_command(
        [*command, str(JOBS / job), *arguments],
        out=folder,
        variant=Variant(remedies=remedies, environment={"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}),
        timeout=400,
        pass_output=False,
        judge=lambda record: (),
    )
    assert record.exit.code == 0, (folder / "stderr.txt").read_text()[-4000:]
    return record, json.loads((folder / "stdout.txt").read_text().strip().splitlines()[-1])


def changed_nothing(record: Record, remedies: tuple[str, ...]) -> list[str]:
    return [remedy for remedy in remedies if not is_unchanged(record, remedy)]


def test_faults_of_data_parallelism_compute_what_the_right_jobs_do(tmp_path: Path) -> None:
    remedies = (*PARALLEL, "cache-folder-per-rank")
    record, printed = ran(tmp_path, "parallel_faults.py", ranks=2, remedies=remedies)
    folders = printed.pop("folders")
    assert set(printed) == {
        "accumulation_in_ddp",
        "accumulation_in_fsdp2",
        "called_past_the_wrapper",
        "wrapped_twice",
        "two_dtypes_in_fsdp1",
        "two_dtypes_in_fsdp2",
        "root_left_out",
        "adapters_after_sharding",
        "loss_is_a_method",
        "loss_that_begins_with_sharded_parts",
        "loss_that_begins_with_nested_parts",
    }
    for fault, (repaired, right) in printed.items():
        assert repaired == pytest.approx(right, rel=BF16 if "dtypes" in fault else 2e-5, abs=1e-7), fault
    assert len({folder for rank in folders for folder in rank}) == 4
    assert [remedy for remedy in remedies if is_unchanged(record, remedy)] == []


def test_healthy_data_parallelism_is_left_alone(tmp_path: Path) -> None:
    record, _ = ran(tmp_path, "parallel_faults.py", "healthy", ranks=2, remedies=PARALLEL)
    assert changed_nothing(record, PARALLEL) == []


def test_faults_of_models_compute_what_the_right_jobs_do(tmp_path: Path) -> None:
    remedies = (*OF_MODELS, "compile-each-block", "cast-embeddings-back")
    record, printed = ran(tmp_path, "model_faults.py", remedies=remedies)
    assert len(printed) == 11
    for fault, (repaired, right) in printed.items():
        assert repaired == pytest.approx(right, rel=IN_BF16.get(fault, 1e-5), abs=1e-5), fault
    assert printed["prepared_for_kbit_training"][0][1] == 0
    assert [remedy for remedy in remedies if is_unchanged(record, remedy)] == []


def test_healthy_models_are_left_alone(tmp_path: Path) -> None:
    remedies = (*OF_MODELS, "cast-embeddings-back", "cache-folder-per-rank")
    record, remedied = ran(tmp_path / "with", "model_faults.py", "healthy", remedies=remedies)
    _, plain = ran(tmp_path / "without", "model_faults.py", "healthy", remedies=())
    assert changed_nothing(record, remedies) == []
    for job, values in plain.items():
        assert remedied[job] == pytest.approx(values, rel=IN_BF16.get(job, 1e-5), abs=1e-5), job


def test_ranks_with_data_of_different_length_train_on_what_both_have(tmp_path: Path) -> None:
    remedies = ("end-loops-together",)
    record, printed = ran(tmp_path, "uneven_batches.py", ranks=2, remedies=remedies)
    assert len(printed[0]) == 7
    for rank in printed:
        for way, ((repaired, batches), (right, _)) in rank.items():
            assert repaired == pytest.approx(right, rel=1e-6), way
            assert batches == 10, way
    assert not is_unchanged(record, "end-loops-together")
    assert [{loop.batches for loop in rank.loops} for rank in record.ranks] == [{5}, {5}]


def test_ranks_with_data_of_one_length_are_left_alone(tmp_path: Path) -> None:
    remedies = ("end-loops-together",)
    record, printed = ran(tmp_path, "uneven_batches.py", "healthy", ranks=2, remedies=remedies)
    assert {batches for rank in printed for way in rank.values() for _, batches in way} == {10}
    assert changed_nothing(record, remedies) == []
