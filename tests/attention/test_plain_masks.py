"""A mask that masks nothing no longer costs the fused kernel, and one that masks something is kept."""

import json
from pathlib import Path

import pytest
import torch

from trueup_runs import PYTHON, trueup_run

JOB = Path(__file__).parent / "jobs" / "plain_masks.py"
FLASH = "flash_attention_for_cpu"
REAL = {"window", "distance"}


def ran(folder, kind, *options):
    folder.mkdir()
    run = trueup_run(folder, PYTHON, JOB, kind, options=options)
    assert run.code == 0, run.stderr
    told = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("[")]
    return {name: (events, torch.tensor(out)) for name, events, out in told}


def compared(tmp_path, kind):
    variant = tmp_path / "remedy.toml"
    variant.write_text('remedies = ["drop-plain-mask"]\n')
    return ran(tmp_path / "plain", kind), ran(tmp_path / "remedied", kind, "--with", str(variant))


def test_masks_of_own_models(tmp_path):
    before, after = compared(tmp_path, "own")
    assert before.keys() == after.keys() >= REAL
    assert "attention_math" in before["causal without heads"][0]  # the kernel that the mask costs on a CPU
    for name, (events, out) in after.items():
        assert FLASH in events, (name, events)
        assert torch.allclose(out, before[name][1], atol=1e-6), name
        if name in REAL:
            assert torch.equal(out, before[name][1]), name


@pytest.mark.parametrize("kind", ["transformers", pytest.param("compiled", marks=pytest.mark.slow)])
def test_masks_of_four_dimensions_given_to_a_model_of_transformers(tmp_path, kind):
    before, after = compared(tmp_path, kind)
    for name, (events, out) in after.items():
        assert before[name][0][FLASH] is True, name  # a mask was given
        assert events[FLASH] is (name in REAL), (name, events)
        assert torch.allclose(out, before[name][1], atol=1e-6), name


@pytest.mark.slow
def test_masks_of_a_graph_stay_and_it_is_not_broken(tmp_path):
    before, after = compared(tmp_path, "whole")  # fullgraph
    assert {name: events for name, (events, _) in before.items()} == {
        name: events for name, (events, _) in after.items()
    }
    assert all(torch.equal(out, before[name][1]) for name, (_, out) in after.items())
