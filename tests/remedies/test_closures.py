"""Float32 copies of parameters hold where the optimizer's step itself runs forward and backward."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from trueup.runs.run import run_command
from trueup.schema.variant import Variant

JOB = Path(__file__).parent / "jobs" / "closures.py"


def ran(folder: Path, *remedies: str) -> tuple[list[float], list[float]]:
    """The weights after training with a closure, and those of float32 copies kept by hand."""
    record = run_command(
        [sys.executable, str(JOB)],
        out=folder,
        variant=Variant(remedies=remedies, environment={"OMP_NUM_THREADS": "1"}),
        timeout=120,
        pass_output=False,
        judge=lambda record: (),
    )
    assert record.exit.code == 0, (folder / "stderr.txt").read_text()[-4000:]
    trained, right = json.loads((folder / "stdout.txt").read_text().strip().splitlines()[-1])
    return trained, right


def test_a_step_with_a_closure_updates_float32_copies(tmp_path: Path) -> None:
    trained, right = ran(tmp_path / "with", "fp32-master-weights")
    assert trained == right
    plain, right = ran(tmp_path / "without")
    assert plain != right
