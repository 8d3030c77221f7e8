"""The changes of the gauntlet's scripts, made from the findings of real runs of them."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path

import pytest
from jobs import DIFFS, FINDINGS, GAUNTLET, stored

from trueup.edits.applying import apply
from trueup.edits.job import Job
from trueup.edits.recipe import edits_for
from trueup.remedies.registry import APPLICATIONS
from trueup.schema.fixing import Edit

CASES = [path.parent.name.replace("--", "/") + ":" + path.stem for path in sorted(DIFFS.glob("*/*.diff"))]
EXPERTS = {
    "adapter/adapter-loaded-for-inference:unfreeze-adapters",
    "adapter/reentrant-checkpoint-input-without-grad:non-reentrant-checkpoint",
    "attention/eager-requested-in-from-config:request-sdpa",
    "attention/packing-leak-cache-default:disable-kv-cache",
    "checkpointing/fsdp-redundant-all-gather:non-reentrant-checkpoint",
    "checkpointing/compiled-region-falls-back-to-eager:remove-break-in-checkpoint",
    "checkpointing/inactive-in-eval-mode:train-mode",
    "checkpointing/reentrant-default-of-torch:non-reentrant-checkpoint",
    "checkpointing/rng-state-wrapper:preserve-rng-state",
    "compile/in-place-compile-of-sequential:compile-by-wrapper",
    "compile/orig-mod-prefix-strict-load:compile-in-place",
    "compile/recompile-dynamic-shape:automatic-dynamic-shapes",
    "compile/recompile-kv-cache-in-training:disable-kv-cache",
    "precision/bf16-updates-lost-trainer:fp32-master-weights",
    "sharding/ddp-unused-parameters:ddp-find-unused-parameters",
    "sharding/gradients-not-reduced:call-the-wrapper",
    "trainer/head-added-after-optimizer:optimizer-after-wrapping",
    "trainer/optimizer-before-materialization:optimizer-after-wrapping",
    "trainer/optimizer-holds-replaced-parameters:optimizer-after-wrapping",
}
"""Cases in which the edit is, to the letter of the code, what the expert wrote."""
TEXT_ONLY = {
    "expandable-segments": "an environment variable",
    "fully-shard-on-cpu": "another structure of the script",
}


def made(case: str) -> tuple[Edit, ...]:
    name, remedy = case.split(":")
    record = stored(name)
    job = Job(GAUNTLET / name, record)
    finding = next(each for each in record.findings if any(other.id == remedy for other in each.remedies))
    return edits_for(remedy, finding, job)[0]


def copied(case: str, where: Path) -> Path:
    folder = where / "job"
    shutil.copytree(GAUNTLET / case.split(":")[0], folder)
    return folder


@pytest.mark.parametrize("case", CASES)
def test_the_change_is_the_expected_one_and_leaves_python(case: str, tmp_path: Path) -> None:
    name, remedy = case.split(":")
    expected = (DIFFS / name.replace("/", "--") / f"{remedy}.diff").read_text()
    edits = made(case)
    assert "".join(edit.diff for edit in edits) == expected

    ours, gits = copied(case, tmp_path / "ours"), copied(case, tmp_path / "gits")
    for file in apply(edits, ours):
        ast.parse(file.read_text())
    subprocess.run(["git", "apply", "-"], input=expected, text=True, cwd=gits, check=True)
    for edit in edits:
        assert (ours / edit.path).read_bytes() == (gits / edit.path).read_bytes()


@pytest.mark.parametrize("case", sorted(EXPERTS))
def test_the_change_is_what_an_expert_wrote(case: str, tmp_path: Path) -> None:
    folder = copied(case, tmp_path)
    apply(made(case), folder)
    assert program(folder / "train.py") == program(folder / "fixed.py")


def test_every_finding_is_of_a_case_with_a_change() -> None:
    assert {path.stem for path in FINDINGS.glob("*.json")} == {path.name for path in DIFFS.iterdir()}


def test_remedies_without_a_change_are_known() -> None:
    from trueup.edits.registry import EDITORS

    assert not TEXT_ONLY.keys() & EDITORS.keys()
    assert {each.remedy for each in APPLICATIONS} >= TEXT_ONLY.keys()


def program(file: Path) -> str:
    """The code without its docstring and comments, keywords sorted."""
    tree = ast.parse(file.read_text())
    tree.body = tree.body[1:]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            node.keywords.sort(key=lambda keyword: keyword.arg or "")
    return ast.dump(tree)
