"""Adapters that are no class of PEFT's learn as in the right job; those that were chosen to be frozen stay so."""

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

JOB = Path(__file__).parent / "jobs" / "frozen_adapters.py"
TORCHRUN = str(Path(sys.executable).parent / "torchrun")
REMEDY = "unfreeze-adapters"


def ran(folder: Path, *arguments: str, remedies: tuple[str, ...] = (REMEDY,)) -> tuple[Record, Any]:
    """The record of the job on two ranks, and what it printed."""
    record = run_command(
        [TORCHRUN, "--standalone", "--nproc-per-node=2", str(JOB), *arguments],
        out=folder,
        variant=Variant(remedies=remedies, environment={"OMP_NUM_THREADS": "1"}),
        timeout=200,
        pass_output=False,
        judge=lambda record: (),
    )
    assert record.exit.code == 0, (folder / "stderr.txt").read_text()[-4000:]
    return record, json.loads((folder / "stdout.txt").read_text().strip().splitlines()[-1])


def test_adapters_of_an_own_class_compute_what_the_right_job_does(tmp_path: Path) -> None:
    record, printed = ran(tmp_path / "with")
    _, plain = ran(tmp_path / "without", remedies=())
    assert len(printed) == 4
    for way, (repaired, right) in printed.items():
        assert repaired == pytest.approx(right, rel=1e-6), way
        assert plain[way][0] != pytest.approx(right, rel=1e-3), way
        assert plain[way][1] == pytest.approx(right, rel=1e-6), way
    assert not is_unchanged(record, REMEDY)


def test_adapters_that_were_chosen_are_left_alone(tmp_path: Path) -> None:
    record, printed = ran(tmp_path / "with", "healthy")
    _, plain = ran(tmp_path / "without", "healthy", remedies=())
    assert printed == plain
    assert is_unchanged(record, REMEDY)
