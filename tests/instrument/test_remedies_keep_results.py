"""What a job computes with each remedy of graphs and kernels, and that its fault is gone."""

from __future__ import annotations

import pytest
from forked_jobs import Done
from remedied_jobs import Remedied, changes, limits, same_gradients, same_losses, with_and_without

ORDERS: list[Remedied] = [
    ("scales", "per_layer", {"kind": "scale"}, "dynamic-attention-scale"),
    ("names", "per_layer", {"kind": "name"}, "isolate-recompiles"),
    ("equal", "equal_layers", {}, "isolate-recompiles"),
    ("frozen", "frozen_at_random", {}, "keep-modes-uniform"),
    ("inputs", "inputs_of_either_kind", {}, "keep-modes-uniform"),
    ("always", "always_frozen", {}, "keep-modes-uniform"),
    ("shapes", "attention_shapes", {}, "fused-attention-shapes"),
    ("groups", "compiled_groups", {}, "expand-kv-heads"),
    ("masks", "plain_masks", {}, "drop-plain-mask"),
    ("copies", "copies", {}, "compile-after-loading"),
    ("wrapped", "checkpoints_with_breaks", {"whole": False}, "checkpoint-around-compile"),
    ("whole", "checkpoints_with_breaks", {"whole": True}, "checkpoint-around-compile"),
    ("lengths", "lengths", {"static": True}, "mark-dynamic"),
    ("lengths of a wrapper", "lengths", {"static": True, "wrapped": True}, "mark-dynamic"),
    ("padded", "padded_rows", {"mask": True}, "bucket-lengths"),
    ("padded for a wrapper", "padded_rows", {"mask": True, "wrapped": True}, "bucket-lengths"),
    ("unmasked", "padded_rows", {"mask": False}, "bucket-lengths"),
    ("flash", "flash_layers", {}, "attention-without-layer-index"),
]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    return with_and_without(tmp_path_factory.mktemp("remedied") / "run", ORDERS)


def test_a_scale_of_each_block_takes_two_graphs(done: dict[str, Done]) -> None:
    assert limits(done["scales"]) == 0 < limits(done["scales-plain"])
    assert done["scales"].result["graphs"] == 2
    assert same_losses(done, "scales")
    assert same_gradients(done, "scales")


def test_blocks_beyond_the_limit_are_compiled_each_by_itself(done: dict[str, Done]) -> None:
    assert limits(done["names"]) == 0 < limits(done["names-plain"])
    assert (done["names"].result["graphs"], done["names-plain"].result["graphs"]) == (5, 2)
    assert same_losses(done, "names")
    assert same_gradients(done, "names")


def test_equal_blocks_go_on_sharing_their_graphs(done: dict[str, Done]) -> None:
    assert done["equal"].result["graphs"] == done["equal-plain"].result["graphs"] == 2


def test_frozen_parameters_get_no_gradient_and_no_graph_of_their_own(done: dict[str, Done]) -> None:
    assert done["frozen"].result["graphs"] <= 2 < done["frozen-plain"].result["graphs"]
    assert done["frozen"].result["trainable"] == done["frozen-plain"].result["trainable"]
    assert same_losses(done, "frozen")
    assert same_gradients(done, "frozen")
    assert any(each is None for step in done["frozen"].result["gradients"] for each in step)


def test_inputs_of_either_kind_keep_their_gradients(done: dict[str, Done]) -> None:
    assert done["inputs"].result["graphs"] == 1
    assert done["inputs-plain"].result["graphs"] == 2
    assert same_losses(done, "inputs")
    assert same_gradients(done, "inputs")


def test_what_is_never_trained_is_left_alone(done: dict[str, Done]) -> None:
    assert changes(done["always"]) == []
    assert done["always"].result == done["always-plain"].result


def test_fused_kernels_run_on_inputs_of_all_shapes_and_compute_the_same(done: dict[str, Done]) -> None:
    mended, plain = done["shapes"].result, done["shapes-plain"].result
    assert {name for name, (_, math, _) in plain.items() if math} >= set(plain) - {"as it should be"}
    assert not [name for name, (_, math, _) in mended.items() if math]
    assert max(difference for difference, *_ in mended.values()) < 1e-5


def test_repeated_heads_compute_what_grouped_ones_do(done: dict[str, Done]) -> None:
    assert changes(done["groups"]) == ["key and value heads repeated, enable_gqa left out"]
    assert done["groups"].result < 1e-5


def test_only_masks_that_mask_nothing_or_the_future_are_dropped(done: dict[str, Done]) -> None:
    mended = done["masks"].result
    plain = {"all ones", "zeros", "causal", "causal, as low as it goes", "before it changes"}
    assert {name for name, (_, _, given) in mended.items() if not given} == plain
    assert max(difference for difference, *_ in mended.values()) < 1e-5
    assert all(given for _, _, given in done["masks-plain"].result.values())


def test_copies_of_what_was_compiled_are_compiled_and_others_are_not(done: dict[str, Done]) -> None:
    told = done["copies"].result
    assert {name: each["compiled"] for name, each in told.items()} == {
        "copied": [True] * 3,
        "pickled": [True] * 3,
        "before": [False] * 3,
    }
    assert max(each["difference"] for each in told.values()) < 1e-6
    assert all(each["state"] for each in told.values())
    assert not any(any(each["compiled"]) for each in done["copies-plain"].result.values())


@pytest.mark.parametrize("name", ["wrapped", "whole"])
def test_a_break_within_a_checkpoint_splits_the_block(done: dict[str, Done], name: str) -> None:
    assert done[f"{name}-plain"].result["graphs"] == 0
    assert done[name].result["graphs"] >= 2
    assert same_losses(done, name)
    assert same_gradients(done, name)


@pytest.mark.parametrize("name", ["lengths", "lengths of a wrapper"])
def test_marked_sizes_take_one_graph(done: dict[str, Done], name: str) -> None:
    assert done[f"{name}-plain"].result["graphs"] >= 6
    assert done[name].result["graphs"] == 1
    assert same_losses(done, name)


@pytest.mark.parametrize("name", ["padded", "padded for a wrapper"])
def test_rows_are_padded_where_a_mask_makes_it_equal(done: dict[str, Done], name: str) -> None:
    assert done[name].result["rows"] == [64] * 4
    assert done[name].result["graphs"] < done[f"{name}-plain"].result["graphs"]
    assert same_losses(done, name)


def test_rows_without_a_mask_stay(done: dict[str, Done]) -> None:
    assert changes(done["unmasked"]) == []
    assert done["unmasked"].result == done["unmasked-plain"].result


def test_flash_attention_without_a_layer_index_takes_few_graphs(done: dict[str, Done]) -> None:
    assert done["flash"].result["graphs"] <= 2
    assert done["flash-plain"].result["graphs"] >= 8
    assert same_losses(done, "flash")
