"""`checks/gpu/attention.py`, which waits for a GPU, on a CPU."""

import json
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from trueup.attention.call import Call, Place

SCRIPT = Path(__file__).parents[2] / "checks" / "gpu" / "attention.py"


def loaded() -> Any:
    spec = spec_from_file_location("gpu_check_of_attention", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_prints_what_agrees_and_what_it_could_not_check():
    run = subprocess.run(
        [sys.executable, str(SCRIPT), "--device", "cpu", "--seconds", "3"], capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr[-2000:]
    found = json.loads(run.stdout)
    assert 0 < found["checked"] == found["agree"] == len(found["cases"])
    assert found["disagree"] == []
    assert {"entry": "flash_attn", "why": "flash-attn is not installed"} in found["not_checked"]
    assert any("s were over" in each["why"] for each in found["not_checked"])


def test_what_disagrees_is_seen():
    """With the release before the one that takes grouped heads in flash, which here is not the truth."""
    grouped = {"query": (1, 4, 8, 16), "key": (1, 2, 8, 16), "value": (1, 2, 8, 16), "enable_gqa": True}
    case = loaded().checked(Call(**grouped, dtype="fp32", place=Place(versions={"torch": (2, 8)})))
    assert not case["agrees"]
    assert (case["predicted"], case["ran"]) == ("sdpa-math", "sdpa-flash-cpu")


def test_without_a_gpu_there_is_no_device_cuda():
    import torch

    if torch.cuda.is_available():
        return
    run = subprocess.run([sys.executable, str(SCRIPT), "--device", "cuda"], capture_output=True, text=True, timeout=60)
    assert run.returncode == 2
    assert "no GPU" in run.stderr
