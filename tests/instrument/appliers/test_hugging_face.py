"""The switches on transformers, Trainer, PEFT and Accelerate."""

from __future__ import annotations

import pytest
from switched_jobs import Switch

JOB = "hugging_face.py"
KEPT = {
    "adapter layer": "Linear",
    "base layer": "Linear",
    "init": "pissa",
    "checkpointing flag": True,
    "prefix": "PeftModelForCausalLM",
}


def test_adapter_off_trains_the_base_model_under_the_layers_of_the_job(switch: Switch) -> None:
    run = switch(JOB, adapter="off")
    actual = run.record.actual
    assert (actual.adapter.adapter_parameters, actual.adapter.adapter_trainable) == (0, 0)
    assert run.printed.items() >= KEPT.items()
    assert (
        run.printed.items()
        >= {
            "of the adapter": 0,
            "base trainable": True,
            "base moved": True,
            "head trainable": True,
        }.items()
    )
    assert (actual.compile.blocks.compiled, actual.compile.blocks.total) == (2, 2)
    assert [kernel.name for kernel in actual.attention.kernels] == ["sdpa-flash-cpu"]
    assert actual.checkpointing.fraction == 1.0
    assert actual.precision.matmul == {"bfloat16": 1.0}
    assert run.switched_layers() == {"adapter"}
    assert ("LlamaForCausalLM", "init_lora_weights=pissa left out") in run.details("adapter")


def test_all_switches_at_once_make_the_plain_training_of_the_base_model(switch: Switch) -> None:
    others = {"precision": "fp32", "attention": "eager", "checkpointing": "off", "compile": "off"}
    run, base = switch(JOB, adapter="off", **others), switch(JOB, "without adapter", **others)
    actual = run.record.actual
    assert run.printed["losses"] == pytest.approx(base.printed["losses"], rel=1e-6)
    assert run.printed["losses"][-1] < run.printed["losses"][0]
    assert run.printed.items() >= KEPT.items()
    assert actual.compile.graphs == 0
    assert [kernel.name for kernel in actual.attention.kernels] == ["eager"]
    assert (run.printed["attention"], run.printed["second attention"]) == ("eager", "eager")
    assert actual.checkpointing.fraction == 0.0
    assert (actual.precision.matmul, actual.precision.parameters) == ({"float32": 1.0}, {"float32": 1.0})
    assert (run.printed["mixed precision"], run.printed["autocast"]) == (["no", "no"], "torch.float32")
    assert ("Accelerator", "mixed_precision bf16 replaced by no") in run.details("precision")
    assert run.record.requested["precision"]["dtype"] == "bf16"
    assert run.observers_off() == []
    assert [note.what for note in run.record.notes] == [
        "--set adapter=off did not reach everything: prompts that are learned are part of the input"
    ]


def test_adapter_off_trains_the_base_model_where_all_but_the_adapter_was_frozen_by_name(switch: Switch) -> None:
    assert switch("frozen_by_name.py").printed == {"moved": [False] * 4, "uniform": False}
    run = switch("frozen_by_name.py", adapter="off")
    assert run.printed == {"moved": [True] * 4, "uniform": True}
    assert run.record.actual.adapter.adapter_parameters == 0
    assert ("SGD", "the base model in the place of the adapter's parameters") in run.details("adapter")
