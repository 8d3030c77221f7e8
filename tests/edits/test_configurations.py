"""Remedies written into the configuration that the launch command names."""

from __future__ import annotations

from pathlib import Path

import pytest

from trueup.edits.applying import apply
from trueup.edits.job import Job
from trueup.edits.recipe import edits_for
from trueup.schema.finding import Finding
from trueup.schema.record import Actual, Blocks, Compile, Record

FINDING = Finding(
    rule="compile/any", layers=("compile",), severity="warning", confidence="established", message="", cause=""
)
ACCELERATE = """\
distributed_type: FSDP  # two GPUs
fsdp_config:
  fsdp_version: 1
  fsdp_auto_wrap_policy: NO_WRAP
mixed_precision: fp16
"""
DEEPSPEED = '{"train_batch_size": 8, "fp16": {"enabled": true}, "zero_optimization": {"stage": 3}}\n'
PARSED = "from transformers import HfArgumentParser, TrainingArguments\n\nHfArgumentParser(TrainingArguments)\n"
LAUNCH = """\
#!/bin/bash
accelerate launch train.py \\
    --bf16 False \\
    --output_dir out
"""
VERL = """\
python3 -m verl.trainer.main_ppo \\
    data.train_batch_size=64 \\
    actor_rollout_ref.model.path=m \\
    actor_rollout_ref.actor.strategy=fsdp \\
    trainer.logger=console $@
"""


def edited(folder: Path, remedy: str, command: str, **files: str) -> tuple[dict[str, str], str | None]:
    """The files that a remedy changes, with their new text, and the new command."""
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    record = Record(
        command=("sh", "-c", command), actual=Actual(compile=Compile(blocks=Blocks(names=("LlamaDecoderLayer",))))
    )
    edits, words = edits_for(remedy, FINDING, Job(folder, record))
    apply(edits, folder)
    texts = {edit.path: (folder / edit.path).read_text() for edit in edits}
    return texts, " ".join(words) if words is not None else None


@pytest.mark.parametrize(
    ("remedy", "old", "new"),
    [
        ("fsdp2", "fsdp_version: 1\n", "fsdp_version: 2\n"),
        ("bf16-without-scaler", "mixed_precision: fp16", "mixed_precision: bf16"),
        (
            "fsdp-use-orig-params",
            "fsdp_auto_wrap_policy: NO_WRAP\n",
            "fsdp_auto_wrap_policy: NO_WRAP\n  fsdp_use_orig_params: true\n",
        ),
        (
            "wrap-blocks",
            "fsdp_auto_wrap_policy: NO_WRAP\n",
            "fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer\n",
        ),
        (
            "accelerate-regional-compilation",
            "mixed_precision: fp16\n",
            "mixed_precision: fp16\ndynamo_config:\n  dynamo_use_regional_compilation: true\n",
        ),
    ],
)
@pytest.mark.parametrize("option", ["--config_file a.yaml", "--config_file=a.yaml", "--config-file a.yaml"])
def test_accelerate(remedy: str, old: str, new: str, option: str, tmp_path: Path) -> None:
    texts, _ = edited(tmp_path, remedy, f"accelerate launch {option} train.py", a__yaml=ACCELERATE)
    assert texts == {"a.yaml": ACCELERATE.replace(old, new)}


def test_a_yaml_that_is_not_the_launchers_is_left_alone(tmp_path: Path) -> None:
    assert edited(tmp_path, "fsdp2", "python train.py --config_file a.yaml", a__yaml=ACCELERATE) == ({}, None)


@pytest.mark.parametrize(
    ("remedy", "new"),
    [
        ("zero-stage-2", DEEPSPEED.replace('"stage": 3', '"stage": 2')),
        (
            "bf16-without-scaler",
            DEEPSPEED.replace("true", "false").replace('"stage": 3}', '"stage": 3}, "bf16": {"enabled": true}'),
        ),
    ],
)
def test_deepspeed(remedy: str, new: str, tmp_path: Path) -> None:
    texts, _ = edited(tmp_path, remedy, "deepspeed train.py --deepspeed ds.json", ds__json=DEEPSPEED)
    assert texts == {"ds.json": new}


def test_training_arguments_in_a_call(tmp_path: Path) -> None:
    code = 'import transformers\n\nargs = transformers.TrainingArguments(\n    output_dir="out",  # here\n)\n'
    texts, _ = edited(tmp_path, "eval-accumulation-steps", "python train.py", train__py=code)
    assert texts == {"train.py": code.replace("# here\n", "# here\n    eval_accumulation_steps=1,\n")}


def test_training_arguments_of_a_configuration_of_trl(tmp_path: Path) -> None:
    code = 'from trl import SFTConfig\n\nargs = SFTConfig("out", fp16=True)\n'
    texts, _ = edited(tmp_path, "bf16-without-scaler", "python train.py", train__py=code)
    assert texts == {"train.py": code.replace("fp16=True", "fp16=False, bf16=True")}


def test_training_arguments_with_options_from_elsewhere_are_left_alone(tmp_path: Path) -> None:
    code = "from transformers import TrainingArguments\n\nargs = TrainingArguments(**options)\n"
    assert edited(tmp_path, "eval-accumulation-steps", "python train.py", train__py=code) == ({}, None)


def test_training_arguments_in_a_json_file(tmp_path: Path) -> None:
    arguments = '{\n  "output_dir": "out"\n}\n'
    texts, _ = edited(tmp_path, "drop-last-batch", "python train.py a.json", train__py=PARSED, a__json=arguments)
    assert texts == {"a.json": '{\n  "output_dir": "out",\n  "dataloader_drop_last": true\n}\n'}


def test_training_arguments_on_the_command_line(tmp_path: Path) -> None:
    command = "torchrun train.py --output_dir out --fp16 True"
    texts, words = edited(tmp_path, "bf16-without-scaler", command, train__py=PARSED)
    assert texts == {}
    assert words == "torchrun train.py --output_dir out --fp16 False --bf16 True"


def test_training_arguments_in_a_shell_script(tmp_path: Path) -> None:
    texts, _ = edited(tmp_path, "bf16-without-scaler", "bash run.sh", run__sh=LAUNCH, train__py=PARSED)
    assert texts == {}  # the script that it starts is not known
    command = "bash run.sh train.py"
    texts, _ = edited(tmp_path, "bf16-without-scaler", command, run__sh=LAUNCH, train__py=PARSED)
    assert texts == {"run.sh": LAUNCH.replace("--bf16 False", "--bf16 True").replace("--out", "--fp16 False --out")}


def test_verl_overrides_in_a_shell_script(tmp_path: Path) -> None:
    texts, _ = edited(tmp_path, "fsdp2", "bash run.sh", run__sh=VERL)
    assert texts == {"run.sh": VERL.replace("strategy=fsdp ", "strategy=fsdp2 ")}
    texts, _ = edited(tmp_path, "request-sdpa", "bash run.sh", run__sh=VERL)
    added = "    ++actor_rollout_ref.model.override_config.attn_implementation=sdpa \\\n"
    assert texts == {"run.sh": VERL.replace("path=m \\\n", f"path=m \\\n{added}")}


def test_verl_overrides_on_the_command_line(tmp_path: Path) -> None:
    command = "python -m verl.trainer.main_ppo actor_rollout_ref.actor.strategy=fsdp trainer.nnodes=1"
    assert edited(tmp_path, "fsdp2", command)[1] == command.replace("=fsdp ", "=fsdp2 ")
    added = "++actor_rollout_ref.model.use_fused_kernels=True trainer"
    assert edited(tmp_path, "fused-linear-cross-entropy", command)[1] == command.replace("trainer.n", f"{added}.n")


def test_verl_settings_in_a_yaml_file(tmp_path: Path) -> None:
    text = "actor_rollout_ref:\n  actor:\n    strategy: fsdp  # of 2024\n"
    texts, _ = edited(tmp_path, "fsdp2", "python main.py --config ppo.yaml", ppo__yaml=text)
    assert texts == {"ppo.yaml": text.replace("fsdp  #", "fsdp2  #")}


def test_torchtitan(tmp_path: Path) -> None:
    text = '[activation_checkpoint]\nmode = "full"\npreserve_rng_state = false  # faster\n'
    command = "torchrun -m torchtitan.train --job.config_file llama.toml"
    texts, _ = edited(tmp_path, "preserve-rng-state", command, llama__toml=text)
    assert texts == {"llama.toml": text.replace("= false", "= true")}
    assert edited(tmp_path, "full-memory-budget", command, llama__toml=text) == ({}, None)


def test_another_launcher_for_the_same_script(tmp_path: Path) -> None:
    command = "accelerate launch --cpu --num_processes 2 train.py --epochs 3"
    assert edited(tmp_path, "launch-with-torchrun", command)[1] == "torchrun --nproc-per-node 2 train.py --epochs 3"
    command = "accelerate launch --config_file a.yaml train.py"
    assert edited(tmp_path, "launch-with-torchrun", command, a__yaml="use_cpu: true\n")[1] is None
    assert edited(tmp_path, "launch-with-torchrun", command, a__yaml="num_processes: 4\n")[1] == (
        "torchrun --nproc-per-node 4 train.py"
    )
