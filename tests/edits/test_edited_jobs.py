"""Edited jobs, run: the finding is gone without a remedy from outside."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from jobs import GAUNTLET
from test_gauntlet_edits import made

from trueup.edits.applying import apply

CASES = [
    "adapter/adapters-not-trained:unfreeze-adapters",
    "attention/packing-leak-mask-or-cache-present:leak-free-packing",
    "compile/fsdp2-hooks-inside-compiled-module:compile-per-block",
    "compile/in-place-compile-of-builtin-module:compile-by-wrapper",
    "compile/orig-mod-prefix-strict-load:compile-in-place",
    "compile/recompile-per-layer-attribute:unspecialize-module-integers",
    "precision/gradscaler-fp16-parameters:fp32-trainable-parameters",
    "precision/gradscaler-with-bf16:no-scaler",
    "sharding/ddp-unused-expert:ddp-find-unused-parameters",
    "sharding/no-wrap-policy-single-unit:wrap-blocks",
    "trainer/parameters-missing-from-optimizer:add-missing-parameters",
]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_finding_is_gone(case: str, tmp_path: Path) -> None:
    name = case.split(":")[0]
    job = tmp_path / "job"
    shutil.copytree(GAUNTLET / name, job, ignore=shutil.ignore_patterns("expect.yaml", "fixed.py", "launch_fixed"))
    apply(made(case), job)
    launch = (job / "launch").read_text().strip()
    here = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{here}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "trueup", "run", "--json", str(tmp_path / "record.json"), "--timeout", "240"]
    subprocess.run([*command, "--", "sh", "-c", launch], cwd=job, env=environment, capture_output=True)
    record = json.loads((tmp_path / "record.json").read_text())
    assert record["exit"]["code"] == 0
    assert record["steps"]["count"] > 0
    assert rule_of(name) not in {finding["rule"] for finding in record["findings"]}


def rule_of(name: str) -> str:
    expected = (GAUNTLET / name / "expect.yaml").read_text().splitlines()
    return next(line.split()[1] for line in expected if line.startswith("rule: "))
