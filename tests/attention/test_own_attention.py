"""`use_attention` of Hugging Face models: few graphs for all inputs, the same logits, and fallbacks that are told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.network, pytest.mark.timeout(900)]
JOB = Path(__file__).with_name("jobs") / "own_attention.py"


@pytest.fixture(scope="module")
def told(flash_attn_packages: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the job printed, and its record under `trueup run`."""
    folder = tmp_path_factory.mktemp("own")
    environment = {**os.environ, "PYTHONPATH": str(flash_attn_packages("2.6.3")), "OMP_NUM_THREADS": "1"}
    job = [sys.executable, "-W", "ignore", str(JOB)]
    line = [sys.executable, "-m", "trueup", "run", "--json", "record.json", "--", *job]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    printed = next(line for line in done.stdout.splitlines() if line.startswith('{"names"'))
    return json.loads(printed), json.loads((folder / "record.json").read_text())


def test_all_inputs_of_twelve_blocks_share_two_graphs(told: Any) -> None:
    """One for rows with boundaries, one without; a mask with padding is an argument more."""
    graphs = told[0]["graphs"]
    assert (graphs["choice"], graphs["implementation"]) == ("flash-attn-2", "trueup_flash_attention_2")
    assert all(same for _, same in graphs["inputs"].values())
    assert {name: count for name, (count, _) in graphs["inputs"].items() if count} == {
        "one row": 1,
        "two rows": 1,
        "padded left": 1,
    }


def test_the_names_are_registered(told: Any) -> None:
    assert told[0]["names"] == [f"trueup_flash_attention_{version}" for version in (2, 3, 4)]


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("fp32", "flash-attn-2 needs dtype: bf16 or fp16; given fp32"),
        ("wide", "flash-attn-2 needs head size: at most 256; given 320"),
    ],
)
def test_a_kernel_that_cannot_serve_is_refused_or_replaced_with_the_reason(told: Any, case: str, reason: str) -> None:
    found = told[0]["refusals"][case]
    assert reason in found["error"]
    assert "fallback=True takes sdpa-flash-cpu" in found["error"]
    requested, actual, why = found["choice"]
    assert (requested, actual, found["implementation"]) == ("flash-attn-2", "sdpa-flash-cpu", "sdpa")
    assert reason in why
    assert found["warned"] == [f"LlamaForCausalLM runs sdpa-flash-cpu in place of flash-attn-2: {why}"]


def test_a_measured_order_decides_which_kernel_is_next(told: Any) -> None:
    assert told[0]["ordered"] == "eager"


def test_a_fallback_stands_in_the_record(told: Any) -> None:
    recorded = told[1]["actual"]["attention"]["fallbacks"]
    assert [(each["requested"], each["actual"], each["model"]) for each in recorded] == [
        ("flash-attn-2", "sdpa-flash-cpu", "LlamaForCausalLM"),
        ("flash-attn-2", "sdpa-flash-cpu", "LlamaForCausalLM"),
        ("flash-attn-2", "eager", "LlamaForCausalLM"),
    ]
    assert "at most 256; given 320" in recorded[1]["reason"]
