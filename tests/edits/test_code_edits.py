"""Changes of scripts for remedies that no gauntlet case of ours shows on a CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from trueup.edits.applying import apply
from trueup.edits.job import Job
from trueup.edits.recipe import edits_for
from trueup.schema.finding import Finding
from trueup.schema.record import Actual, Applied, Blocks, Compile, Record

FINDING = Finding(
    rule="compile/any", layers=("compile",), severity="warning", confidence="established", message="", cause=""
)


def edited(folder: Path, remedy: str, code: str, kind: str = "Net") -> str:
    """The script after the remedy; a comment `# EVENT` says what was seen in its line."""
    order = []
    for number, line in enumerate(code.splitlines(), 1):
        _, sign, event = line.partition("  # seen: ")
        if sign:
            order.append(Applied(layer="compile", event=event, module=kind, at=f"train.py:{number}"))
    (folder / "train.py").write_text(code)
    blocks = Compile(blocks=Blocks(names=("Block",)))
    record = Record(command=("python", "train.py"), order=tuple(order), actual=Actual(compile=blocks))
    edits, _ = edits_for(remedy, FINDING, Job(folder, record))
    apply(edits, folder)
    return (folder / "train.py").read_text()


@pytest.mark.parametrize(
    ("remedy", "old", "new"),
    [
        ("compile-without-cudagraphs", 'mode="reduce-overhead"', 'mode="default"'),
        ("compile-without-cudagraphs", "mode='max-autotune'", 'mode="max-autotune-no-cudagraphs"'),
        ("compile-without-inductor", 'mode="max-autotune"', 'backend="aot_eager"'),
        ("isolate-recompiles", "dynamic=True", "dynamic=True, isolate_recompiles=True"),
        ("automatic-dynamic-shapes", "fullgraph=True, dynamic=False", "fullgraph=True"),
    ],
)
def test_options_of_compile(remedy: str, old: str, new: str, tmp_path: Path) -> None:
    code = f"import torch\n\nmodel = torch.compile(model, {old})  # seen: torch.compile\n"
    assert edited(tmp_path, remedy, code) == code.replace(old, new)


def test_blocks_are_compiled_before_they_are_sharded(tmp_path: Path) -> None:
    code = """\
import torch
from blocks import Block
from torch.distributed.fsdp import fully_shard

def main():
    model = Net()

    # the blocks first
    for layer in model.layers:
        fully_shard(layer)  # seen: fully_shard
    fully_shard(model)  # seen: fully_shard
    model = torch.compile(model)  # seen: torch.compile
    train(model)
"""
    compiled = "    for block in model.modules():\n        if isinstance(block, Block):\n            block.compile()\n"
    expected = code.replace("    # the blocks first\n", f"{compiled}    # the blocks first\n")
    expected = expected.replace("    model = torch.compile(model)  # seen: torch.compile\n", "")
    assert edited(tmp_path, "compile-per-block", code) == expected


def test_classes_of_torch_are_not_compiled_in_place(tmp_path: Path) -> None:
    code = "import torch\n\nmodel = torch.compile(model)  # seen: torch.compile\n"
    (tmp_path / "train.py").write_text(code)
    blocks = Compile(blocks=Blocks(names=("TransformerEncoderLayer",)))
    order = (Applied(layer="compile", event="torch.compile", at="train.py:3"),)
    record = Record(command=("python", "train.py"), order=order, actual=Actual(compile=blocks))
    assert edits_for("compile-per-block", FINDING, Job(tmp_path, record)) == ((), None)


def test_a_model_of_a_class_of_torch_is_not_compiled_in_place(tmp_path: Path) -> None:
    code = "import torch\n\nmodel = torch.compile(build())  # seen: torch.compile\n"
    assert edited(tmp_path, "compile-in-place", code, kind="Sequential") == code
    assert edited(tmp_path, "compile-in-place", code) != code


def test_a_function_compiles_its_model_in_place_and_returns_it(tmp_path: Path) -> None:
    code = "import torch\n\ndef prepare(model):\n    return torch.compile(model, dynamic=True)  # seen: torch.compile\n"
    expected = "import torch\n\ndef prepare(model):\n    model.compile(dynamic=True)\n    return model\n"
    assert edited(tmp_path, "compile-in-place", code) == expected


def test_the_root_is_sharded_before_the_optimizer_is_made(tmp_path: Path) -> None:
    code = """\
import torch
import torch.distributed.fsdp as fsdp

for block in model.blocks:
    fsdp.fully_shard(block)
optimizer = torch.optim.AdamW(model.parameters())  # seen: Optimizer
"""
    assert edited(tmp_path, "shard-root", code) == code.replace("optimizer =", "fsdp.fully_shard(model)\noptimizer =")


def test_weights_are_tied_again_behind_their_storage(tmp_path: Path) -> None:
    code = "import torch\n\nmodel = Llama(config)  # seen: config\nmodel.to_empty(device='cpu')\nload(model)\n"
    expected = code.replace("load(", "model.tie_weights()\nload(")
    assert edited(tmp_path, "tie-weights-again", code) == expected


def test_the_layer_class_in_a_variable_of_accelerate(tmp_path: Path) -> None:
    code = 'import os\n\nos.environ["FSDP_TRANSFORMER_CLS_TO_WRAP"] = "LlamaDecoderLayer"\n'
    assert edited(tmp_path, "existing-layer-class", code) == code.replace("LlamaDecoderLayer", "Block")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("model.gradient_checkpointing_enable()", 'gradient_checkpointing_kwargs={"use_reentrant": False}'),
        ("Arguments(gradient_checkpointing=True)", ', gradient_checkpointing_kwargs={"use_reentrant": False}'),
        ("wrap(block, checkpoint_impl=CheckpointImpl.REENTRANT)", None),
    ],
)
def test_the_reentrant_variant_by_default_or_by_name(old: str, new: str | None, tmp_path: Path) -> None:
    after = f"{old[:-1]}{new})" if new is not None else old.replace("REENTRANT", "NO_REENTRANT")
    assert edited(tmp_path, "non-reentrant-checkpoint", f"{old}\n") == f"{after}\n"


def test_a_line_for_a_setting_stands_behind_the_imports(tmp_path: Path) -> None:
    head = '"""A job."""\n\nfrom __future__ import annotations\n\nimport os\n\nos.environ["A"] = "1"\n'
    code = f"{head}import torch\n\nx = 1\n"
    line = "\ntorch._dynamo.config.optimize_ddp = False\n"
    assert edited(tmp_path, "ddp-optimizer-off", code) == code.replace("import torch\n", f"import torch\n{line}")
    code = "from transformers import Trainer\n\nTrainer().train()\n"
    expected = f"import torch\n\nfrom transformers import Trainer\n{line}\nTrainer().train()\n"
    assert edited(tmp_path, "ddp-optimizer-off", code) == expected


def test_the_loader_leaves_out_what_fills_no_batch(tmp_path: Path) -> None:
    code = "from torch.utils import data\n\nloader = data.DataLoader(rows, batch_size=4, drop_last=False)\n"
    assert edited(tmp_path, "drop-last-batch", code) == code.replace("drop_last=False", "drop_last=True")
