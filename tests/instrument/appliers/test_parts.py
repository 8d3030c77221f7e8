"""Switches that hold for parts of a layer: those parts are switched, and training goes on as it was."""

from __future__ import annotations

import pytest
from switched_jobs import Switch

RANKS = "two_ranks.py"


@pytest.mark.slow
@pytest.mark.parametrize("value", ["replicate", "grad_op", "off:blocks.1", "off:blocks.0,blocks.1,blocks.2"])
def test_sharding_by_half_trains_the_same(switch: Switch, value: str) -> None:
    sharded, less = switch(RANKS, ranks=2), switch(RANKS, ranks=2, sharding=value)
    assert less.switched_layers() == {"sharding"}
    assert (less.details("sharding", "cannot"), less.observers_off(), less.record.notes) == (set(), [], ())
    for kind in ("fsdp1", "fsdp2"):
        for own, theirs in zip(less.printed[kind], sharded.printed[kind], strict=True):
            assert own == pytest.approx(theirs, rel=1e-4), kind


@pytest.mark.slow
def test_without_a_named_module_the_job_computes_as_it_did(switch: Switch) -> None:
    plain, none = switch("parts.py"), switch("parts.py", precision="fp32:none")
    assert none.printed == plain.printed
    assert none.record.parts["precision"] == (
        *("the model itself", "embed", "blocks.0", "blocks.0.attention", "blocks.0.attention.qkv"),
        *("blocks.0.attention.out", "blocks.0.norm", "blocks.0.mlp.0", "blocks.0.mlp.1", "blocks.0.mlp.2"),
        *("blocks.1", "blocks.1.attention", "blocks.1.attention.qkv", "blocks.1.attention.out", "blocks.1.norm"),
        *("blocks.1.mlp.0", "blocks.1.mlp.1", "blocks.1.mlp.2", "head"),
    )
    assert none.observers_off() == []


@pytest.mark.slow
@pytest.mark.parametrize("how", ["autocast", "cast"])
def test_all_modules_in_float32_are_the_job_in_float32(switch: Switch, how: str) -> None:
    names = switch("parts.py", how, precision="fp32:none").record.parts["precision"]
    wide = switch("parts.py", how, precision=f"fp32:{','.join(names)}")
    assert set(wide.record.actual.precision.matmul) == {"float32"}
    if how == "autocast":
        assert wide.printed["losses"] == switch("parts.py", how, precision="fp32").printed["losses"]
    one = switch("parts.py", how, precision="fp32:blocks.1.mlp.0")
    assert 0 < one.record.actual.precision.matmul["float32"] < 0.2
    assert {module for module, _ in one.details("precision")} == {"blocks.1.mlp.0"}
    assert one.observers_off() == []


def test_batches_are_chosen_in_training_only(switch: Switch) -> None:
    run = switch("parts.py", data="only:3")
    assert run.printed["fed"] == [2] * 4
    assert run.printed["evaluated"] == [0, 1]
    assert run.record.parts["data"] == ("2x12",) * 3
    assert run.details("data") == {("list", "batch 3 of each dataset again and again")}


@pytest.mark.slow
def test_a_batch_is_left_out_and_rows_are_cut(switch: Switch) -> None:
    assert switch("parts.py", data="without:2").printed["fed"] == [0, 2, 3]
    cut = switch("parts.py", data="length:5")
    assert (cut.printed["shapes"], cut.record.parts["data"]) == ([[2, 5, 5]] * 4, ("2x12",))
