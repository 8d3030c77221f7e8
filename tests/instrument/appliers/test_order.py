"""`A before B`: the layers of a job change places, both are there, and it computes what it did."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from switched_jobs import JOBS

from trueup.runs.injection import bootstrap_folder
from trueup.runs.run import run_command
from trueup.schema.record import Record
from trueup.schema.variant import CHANGEABLE, WHICHEVER, Variant, orders

WAYS = bootstrap_folder() / "trueup_instrument" / "appliers" / "order" / "__init__.py"
FSDP1 = "FullyShardedDataParallel"


def ordered(folder: Path, *order: str, stacks: tuple[str, ...]) -> tuple[Record, dict[str, Any]]:
    """(record, stack → facts) of the job that applies layers in the order of the stacks' names, under another order."""
    record = run_command(
        [sys.executable, str(JOBS / "ordered.py"), *stacks],
        out=folder,
        variant=Variant(order=order, environment={"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}),
        timeout=300,
        pass_output=False,
        judge=lambda record: (),
    )
    assert record.exit.code == 0, (folder / "stderr.txt").read_text()[-4000:]
    assert [note.what for note in record.notes] == []
    return record, json.loads((folder / "stdout.txt").read_text().strip().splitlines()[-1])


def nested(facts: dict[str, Any]) -> dict[str, list[str]]:
    return {stack: told["nested"] for stack, told in facts.items() if "+" in stack}


def computes_the_same(facts: dict[str, Any], plain: str = "plain") -> None:
    for stack, told in facts.items():
        assert told["losses"] == pytest.approx(facts[plain]["losses"], rel=1e-5), stack
        assert told["trained"] == facts[plain]["trained"], stack


def test_each_order_that_can_be_asked_for_has_a_way() -> None:
    tree = ast.parse(WAYS.read_text())
    ways = next(
        node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "WAYS"
    )
    found = ast.literal_eval(ways)
    assert set(found) == {orders(Variant(order=pair))[0] for pair in CHANGEABLE}
    told = "".join(path.read_text() for path in WAYS.parent.glob("*.py"))
    assert told.count(f'{WHICHEVER}"') == 2, "read by bisect"
    assert {f"{name}.py" for name in found.values()} <= {path.name for path in WAYS.parent.glob("*.py")}


def test_compile_goes_within_the_units(tmp_path: Path) -> None:
    stacks = ("fsdp2+compile", "compile-in-place+fsdp2", "fsdp1-blocks+compile", "ddp+compile", "plain")
    record, facts = ordered(tmp_path, "compile", "sharding", stacks=stacks)
    assert nested(facts) == {
        "fsdp2+compile": ["FSDPModel", "compiled FSDPBlock"],
        "compile-in-place+fsdp2": ["FSDPModel", "compiled FSDPBlock"],
        "fsdp1-blocks+compile": [FSDP1, "compiled Block"],
        "ddp+compile": ["DistributedDataParallel", "compiled Model"],
    }
    computes_the_same(facts)
    steps = [(each.event, each.module, each.detail.get("compiled")) for each in record.order]
    asked = steps.index(("compile_regions", "Model", 0))  # in place, before anything was sharded
    sharded = steps.index(("fully_shard", "Model", None), asked)
    assert ("Module.compile", "Block", None) in steps[sharded:]


@pytest.mark.slow
def test_compile_goes_around_what_is_sharded(tmp_path: Path) -> None:
    stacks = ("compile+fsdp2", "compile+fsdp1", "compile+ddp", "plain")
    _, facts = ordered(tmp_path, "sharding", "compile", stacks=stacks)
    assert nested(facts) == {
        "compile+fsdp2": ["OptimizedModule", "FSDPModel", "FSDPBlock"],
        "compile+fsdp1": [f"compiled {FSDP1}"],
        "compile+ddp": ["compiled DistributedDataParallel"],
    }
    computes_the_same(facts)


def test_compile_goes_within_checkpoints_and_those_within_units(tmp_path: Path) -> None:
    stacks = ("checkpoint+compile-blocks", "compile-in-place+checkpoint", "fsdp2+checkpoint", "fsdp1-blocks+checkpoint")
    _, facts = ordered(tmp_path, "compile", "checkpointing", "sharding", stacks=(*stacks, "plain"))
    assert nested(facts) == {
        "checkpoint+compile-blocks": ["CheckpointWrapper", "compiled Block"],
        "compile-in-place+checkpoint": ["CheckpointWrapper", "compiled Block"],
        "fsdp2+checkpoint": ["FSDPModel", "CheckpointWrapper", "FSDPBlock"],
        "fsdp1-blocks+checkpoint": ["CheckpointWrapper", FSDP1],
    }
    computes_the_same(facts)
    # two blocks, with FSDP2 the model around them, in four steps: none is entered again by what is recomputed
    assert (facts["fsdp2+checkpoint"]["entered"], facts["fsdp1-blocks+checkpoint"]["entered"]) == (12, 8)


@pytest.mark.slow
def test_checkpoints_go_around_units_and_compile_around_those(tmp_path: Path) -> None:
    stacks = ("checkpoint+fsdp2", "checkpoint+fsdp1-blocks", "compile-blocks+checkpoint")
    _, facts = ordered(tmp_path, "sharding", "checkpointing", "compile", stacks=(*stacks, "plain"))
    assert nested(facts) == {
        "checkpoint+fsdp2": ["FSDPModel", "CheckpointWrapper", "FSDPBlock"],
        "checkpoint+fsdp1-blocks": [FSDP1, "CheckpointWrapper"],
        "compile-blocks+checkpoint": ["compiled CheckpointWrapper"],
    }
    computes_the_same(facts)
    assert (facts["checkpoint+fsdp2"]["entered"], facts["checkpoint+fsdp1-blocks"]["entered"]) == (20, 16)


def test_compile_goes_within_adapters_and_those_within_units(tmp_path: Path) -> None:
    _, facts = ordered(
        tmp_path, "compile", "adapter", "sharding", stacks=("lora+compile", "fsdp2+lora", "ddp+lora", "lora")
    )
    assert nested(facts) == {
        "lora+compile": ["PeftModel", "compiled Model"],
        "fsdp2+lora": ["PeftModel", "FSDPModel", "FSDPBlock"],
        "ddp+lora": ["PeftModel", "DistributedDataParallel"],
    }
    computes_the_same(facts, plain="lora")
    assert facts["fsdp2+lora"]["sharded"] == facts["fsdp2+lora"]["trained"]


@pytest.mark.parametrize(
    ("order", "stack", "as_if"),
    [
        pytest.param(("precision", "adapter"), "lora+bf16", "bf16+lora", id="cast first"),
        pytest.param(("adapter", "precision"), "bf16+lora", "lora+bf16", id="cast last", marks=pytest.mark.slow),
    ],
)
def test_a_cast_changes_places_with_adapters(tmp_path: Path, order: tuple[str, ...], stack: str, as_if: str) -> None:
    _, facts = ordered(tmp_path, *order, stacks=(stack, as_if))
    assert facts[stack] == facts[as_if]


@pytest.mark.slow
def test_compile_goes_around_adapters(tmp_path: Path) -> None:
    _, facts = ordered(tmp_path, "adapter", "compile", stacks=("compile+lora", "compile-in-place+lora", "lora"))
    assert nested(facts) == {stack: ["compiled PeftModel"] for stack in facts if "+" in stack}
    computes_the_same(facts, plain="lora")


def test_what_cannot_change_places_is_told(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text("import torch\ntorch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)\n")
    record = run_command(
        [sys.executable, str(job)],
        out=tmp_path / "out",
        variant=Variant(order=("sharding", "adapter", "compile")),
        timeout=120,
        pass_output=False,
        judge=lambda record: (),
    )
    told = [note.what for note in record.notes if "before" in note.what]
    assert told == [
        "sharding before adapter was asked for and nothing was changed: units are made of the parameters that are "
        "there; adapters come into none of them later",
        "adapter before compile was asked for and nothing was changed: the job has no two steps of these kinds that "
        "can change places, or has them in this order",
    ]
