"""https://github.com/pytorch/pytorch/issues/158186 on CPU: flash-attn 2.6 under FSDP2 and torch.compile, two ranks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.timeout(1800)]
JOB = Path(__file__).with_name("jobs") / "sharded_blocks.py"
RULE = "compile/pybind-kernel-graph-break"
REMEDIES = 'remedies = ["bridge-attention", "attention-without-layer-index"]\n'


def trueup(packages: Path, folder: Path, command: str, *options: str, job: tuple[str, ...] = ()) -> tuple[Any, str]:
    """What `trueup run` or `fix` tells of the job over two ranks, as values, and what was printed."""
    here = str(Path(sys.executable).parent)
    environment = {**os.environ, "PYTHONPATH": str(packages), "OMP_NUM_THREADS": "1"}
    environment["PATH"] = f"{here}{os.pathsep}{environment['PATH']}"
    launch = ["torchrun", "--standalone", "--nproc-per-node", "2", str(JOB), *job]
    line = [sys.executable, "-m", "trueup", command, "--json", "told.json", *options, "--", *launch]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=1500, check=False)
    assert (folder / "told.json").exists(), done.stderr[-4000:]
    return json.loads((folder / "told.json").read_text()), done.stdout + done.stderr


def losses(printed: str) -> str:
    return next(line for line in printed.splitlines() if "losses 0x" in line).partition("losses ")[2]


def test_the_opaque_kernel_is_named_and_the_bridge_makes_one_graph_of_each_block(
    flash_attn_packages: Any, tmp_path: Path
) -> None:
    packages = flash_attn_packages("2.6.3")
    (tmp_path / "remedies.toml").write_text(REMEDIES)
    opaque, printed = trueup(packages, tmp_path, "run")
    first = opaque["findings"][0]
    assert (first["rule"], first["confidence"]) == (RULE, "established")
    assert {"attention", "compile"} <= set(first["layers"])
    assert "flash_attn_2_cuda.fwd" in first["message"]
    assert opaque["actual"]["compile"]["breaks"]

    bridged, printed_bridged = trueup(packages, tmp_path, "run", "--with", "remedies.toml", job=("full",))
    actual = bridged["actual"]
    assert (actual["compile"]["breaks"], actual["compile"]["graphs"]) == ([], 1)
    assert actual["compile"]["blocks"] == {**actual["compile"]["blocks"], "total": 16, "compiled": 16}
    assert [kernel["name"] for kernel in actual["attention"]["kernels"]] == ["flash-attn-2"]
    assert (actual["sharding"]["strategy"], bridged["findings"]) == ("FSDP2", [])
    assert losses(printed_bridged) == losses(printed)


def test_fix_bridges_it_and_proves_equal_results(flash_attn_packages: Any, tmp_path: Path) -> None:
    told, _ = trueup(flash_attn_packages("2.6.3"), tmp_path, "fix", "--pairs", "1")
    assert RULE in {finding["rule"] for finding in told["before"]["findings"]}
    assert "bridge-attention" in told["applied"] or "bridge-attention" in str(told["applied"])
    assert told["after"]["actual"]["compile"]["breaks"] == []
    assert told["proof"]["findings_gone"]
