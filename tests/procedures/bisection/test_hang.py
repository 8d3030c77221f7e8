"""A job of two ranks of which one waits for ever: found as a hang, its stacks told, and nothing of it left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

JOB = Path(__file__).parents[1] / "bisect_jobs" / "evaluates_on_rank_0.py"
MARK = "TRUEUP_TEST_MARK"

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are looked for in /proc")


def marked(value: str) -> list[int]:
    """The processes that were started with this value of MARK."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and f"{MARK}={value}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.mark.slow
def test_a_hang_of_one_rank_is_found_with_its_stacks_and_leaves_no_process(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    here = str(Path(sys.executable).parent)
    environment = {**os.environ, MARK: mark, "PATH": f"{here}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    (tmp_path / "train.py").write_text(JOB.read_text())
    launch = ["torchrun", "--standalone", "--nproc-per-node", "2", "train.py"]
    options = ["--shallow", "--timeout", "45", "--layers", "sharding", "--json", "out.json"]
    done = subprocess.run(
        [sys.executable, "-m", "trueup", "bisect", *options, "--", *launch],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    assert marked(mark) == []
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["signature"]["kind"] == "hang"
    assert result["control"] == "passes"
    assert result["minimal"] == ["sharding"]
    assert [place.partition(":")[0] for place in result["stacks"]] == ["rank 0", "rank 1"]
    assert all("called from train.py:" in place for place in result["stacks"])
    assert "stack" in done.stdout
