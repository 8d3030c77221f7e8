"""The bridges around libraries: flash-attn over its own code; others over functions of their recorded signatures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

JOB = Path(__file__).with_name("jobs") / "bridged_flash_attn.py"
ENTRIES = ["_flash_attn_forward", "_flash_attn_varlen_forward", "_flash_attn_backward", "_flash_attn_varlen_backward"]


@pytest.mark.network
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", ["2.6.3", pytest.param("2.5.9.post1", marks=pytest.mark.slow)])
def test_flash_attn_in_graphs_computes_what_its_own_functions_compute(version: str, flash_attn_packages: Any) -> None:
    environment = {**os.environ, "PYTHONPATH": str(flash_attn_packages(version)), "OMP_NUM_THREADS": "1"}
    line = [sys.executable, "-W", "ignore", str(JOB)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=800, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["version"] == version
    assert told["bridged"] == {"flash_attn.flash_attn_interface": ENTRIES}
    assert told["again"] == {"flash_attn.flash_attn_interface": []}
    assert (told["eager"], told["graphs"], told["inductor"]) == ([], [], True)
    assert set(map(tuple, told["opcheck"].values())) == {("SUCCESS",)}
    assert told["runs"] == {"eager": [1, 2], "graphs": [1, 2]}
