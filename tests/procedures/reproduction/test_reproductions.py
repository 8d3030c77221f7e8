"""Real jobs, each with a script of its own that fails as it did and passes without each of its guilty layers."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from trueup.procedures.bisection.reproducing import with_reproduction
from trueup.procedures.bisection.signatures import finding_of, signature_of
from trueup.procedures.reproduction.candidate import LINES
from trueup.schema.bisection import Bisection, Signature
from trueup.schema.record import Record
from trueup_runs import trueup_run

GAUNTLET = Path(__file__).parents[2] / "gauntlet"
PROJECTS = Path(__file__).parent / "projects"
CASES = (
    "adapter/reentrant-checkpoint-input-without-grad",
    "adapter/reentrant-checkpoint-no-graph",
    "checkpointing/compiled-region-falls-back-to-eager",
    "checkpointing/compiled-region-with-torch-checkpoint",
    "checkpointing/fsdp-redundant-all-gather",
    "compile/compiled-autograd-around-backward",
    "compile/fsdp2-hooks-compile-before-shard",
    "compile/fsdp2-hooks-inside-compiled-module",
    "sharding/fsdp1-nonuniform-requires-grad",
    "sharding/fsdp2-adapter-after-sharding",
)
JOBS = {
    "lora_yaml": ("python train.py", ("adapter", "checkpointing")),
    "sharded_argparse": ("torchrun --standalone --nproc_per_node 2 train.py --layers 3", ("sharding", "adapter")),
    "trainer_custom_op": ("python train.py", ("compile",)),
}
"""Folder → its command, and the layers that it takes."""
SECONDS = 900.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * SECONDS)]


def reproduced(folder: Path, record: Record, signature: Signature, minimal: tuple[str, ...]) -> None:
    """Whether the script is found, and each of its commands ends as it says, in a folder with nothing else."""
    found = Bisection(verdict="found", why="", minimal=minimal, signature=signature, record=record)
    told: list[str] = []
    after = with_reproduction(found, folder, told.append, SECONDS)
    assert after.repro is not None, "\n".join([*told, *after.notes])
    assert len(after.repro.script.splitlines()) < LINES
    assert "trueup" not in after.repro.script
    alone = folder / "alone"
    alone.mkdir()
    (alone / "repro.py").write_text(after.repro.script)
    assert ends(alone, after.repro.launch) != 0
    for layer in minimal:
        assert ends(alone, after.repro.without[layer]) == 0


def ends(folder: Path, command: str) -> int:
    """The exit code of a command of this environment."""
    words = shlex.split(command)
    words[0] = str(Path(sys.executable).with_name(words[0]))
    return subprocess.run(words, cwd=folder, capture_output=True, timeout=300, check=False).returncode


def copied(source: Path, folder: Path) -> Path:
    place = folder / "job"
    shutil.copytree(source, place, ignore=shutil.ignore_patterns("fixed.py", "__pycache__"))
    return place


@pytest.mark.parametrize("case", CASES)
def test_a_case_of_two_layers_gets_a_script(case: str, tmp_path: Path) -> None:
    folder = copied(GAUNTLET / case, tmp_path)
    expected = yaml.safe_load((folder / "expect.yaml").read_text())
    record = trueup_run(folder, *shlex.split((folder / "launch").read_text())).record
    signature = signature_of(record)
    if signature is None or signature.kind == "finding":
        finding = finding_of(record, expected["rule"])
        assert finding is not None
        signature = Signature(kind="finding", text=finding.message, rule=finding.rule)
    reproduced(folder, record, signature, tuple(expected["minimal_conflict"]))


@pytest.mark.parametrize("name", JOBS)
def test_a_project_gets_a_script(name: str, tmp_path: Path) -> None:
    command, minimal = JOBS[name]
    folder = copied(PROJECTS / name, tmp_path)
    record = trueup_run(folder, *shlex.split(command)).record
    signature = signature_of(record)
    assert signature is not None
    reproduced(folder, record, signature, minimal)
