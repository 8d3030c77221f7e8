"""Float32 copies of parameters hold where an optimizer has another one step, fails, or is not alone in writing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from trueup.runs.run import run_command
from trueup.schema.variant import Variant

JOB = Path(__file__).parent / "jobs" / "nested_optimizers.py"
TWO = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")


def ran(folder: Path, job: str, *remedies: str, launch: tuple[str, ...] = ()) -> tuple[list[float], list[float]]:
    """The weights after training, and those of float32 copies kept by hand."""
    record = run_command(
        [sys.executable, *launch, str(JOB), job],
        out=folder,
        variant=Variant(remedies=remedies, environment={"OMP_NUM_THREADS": "1"}),
        timeout=120,
        pass_output=False,
        judge=lambda record: (),
    )
    assert record.exit.code == 0, (folder / "stderr.txt").read_text()[-4000:]
    lines = (folder / "stdout.txt").read_text().splitlines()
    trained, right = json.loads(next(line for line in lines if line.startswith("[[")))
    return trained, right


@pytest.mark.parametrize("job", ["averaged", "ascended", "failed", "written"])
def test_the_copies_are_those_kept_by_hand(job: str, tmp_path: Path) -> None:
    trained, right = ran(tmp_path, job, "fp32-master-weights")
    assert trained == right


@pytest.mark.parametrize("job", ["sharded", "bucket-view"])
def test_shards_are_sent_as_they_were_updated(job: str, tmp_path: Path) -> None:
    trained, right = ran(tmp_path, job, "fp32-master-weights", launch=TWO)
    assert trained == right


def test_parameters_without_a_possible_copy_are_left_alone(tmp_path: Path) -> None:
    with_remedy = ran(tmp_path / "with", "fully-sharded", "fp32-master-weights")
    assert with_remedy == ran(tmp_path / "without", "fully-sharded")


def test_without_copies_the_updates_are_others(tmp_path: Path) -> None:
    trained, right = ran(tmp_path, "averaged")
    assert trained != right
