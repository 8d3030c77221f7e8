"""Each switch under each framework: its layer is off, and every other one is what it is without the switch."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from switched_jobs import Switch, Switched

from trueup.schema.record import Record

pytestmark = pytest.mark.slow
FRAMEWORKS = ("plain_torch", "accelerate", "trainer", "lightning")
OFF = {
    "compile": ("off", 0),
    "attention": ("math", {"sdpa-math"}),
    "checkpointing": ("off", 0.0),
    "precision": ("fp32", "float32"),
    "adapter": ("off", 0),
}
"""Layer → (value by which it is off, what is seen of it then)."""
NEAR = {"attention": 2e-2, "precision": 2e-2}
"""Layer → how near the loss of the first step is in bfloat16; of the others the numbers are the same."""


@pytest.fixture(scope="session")
def of(switch: Switch) -> Any:
    """`of(framework)`: the run without a switch, made once."""
    return cache(lambda framework: switch("framework.py", framework))


def seen(record: Record) -> dict[str, Any]:
    actual = record.actual
    matmul = actual.precision.matmul
    return {
        "compile": actual.compile.blocks.compiled,
        "attention": {kernel.name for kernel in actual.attention.kernels},
        "checkpointing": actual.checkpointing.fraction,
        "precision": max(matmul, key=lambda dtype: matmul[dtype]),
        "adapter": actual.adapter.adapter_trainable,
        "sharding": (actual.sharding.strategy, actual.sharding.fraction),
    }


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_without_a_switch_all_layers_are_on(of: Any, framework: str) -> None:
    run: Switched = of(framework)
    on = {"compile": 2, "attention": {"sdpa-flash-cpu"}, "checkpointing": 1.0, "precision": "bfloat16", "adapter": 8}
    assert seen(run.record) == {**on, "sharding": ("none", 0.0)}
    assert run.switched_layers() == set()


@pytest.mark.parametrize("layer", OFF)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_switch_switches_its_layer_and_nothing_else(switch: Switch, of: Any, framework: str, layer: str) -> None:
    value, off = OFF[layer]
    base, run = of(framework), switch("framework.py", framework, **{layer: value})
    assert seen(run.record) == {**seen(base.record), layer: off}
    assert run.switched_layers() == {layer}
    assert run.printed["losses"][0] == pytest.approx(base.printed["losses"][0], rel=NEAR.get(layer, 1e-6))
    assert run.details(layer, "cannot") == set()
    assert run.observers_off() == []
