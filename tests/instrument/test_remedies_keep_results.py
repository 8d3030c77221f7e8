"""What a job computes with each remedy of compile, attention and checkpointing, and that its fault is gone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from forked_jobs import Done, Order, run_jobs

ORDERS: list[tuple[str, str, dict[str, Any], str | None]] = [
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
    ("adapters", "frozen_base", {"peft": True}, "enable-input-require-grads"),
    ("trained", "frozen_base", {"peft": False}, "enable-input-require-grads"),
    ("routed", "experts", {"noise": 1e-2}, "save-router-decision"),
    ("repeatable", "experts", {"noise": 0.0}, "save-router-decision"),
    ("drawn", "experts", {"noise": None}, "save-router-decision"),
    ("appended", "growing_lists", {"reads": "variable"}, "hide-growing-lists"),
    ("measured", "growing_lists", {"reads": "length"}, "hide-growing-lists"),
    ("alias", "growing_lists", {"reads": "alias"}, "hide-growing-lists"),
    ("packed", "packed_rows", {"single": False}, "read-boundaries-once"),
    ("single", "packed_rows", {"single": True}, "read-boundaries-once"),
    ("method", "trainer_steps", {"kind": "method"}, "compile-inner-network"),
    ("function", "trainer_steps", {"kind": "function"}, "compile-inner-network"),
    ("own", "trainer_steps", {"kind": "own"}, "compile-inner-network"),
    ("redirected", "redirected_steps", {}, "compile-inner-network"),
    ("whole graph", "whole_graph", {}, "compile-inner-network"),
    ("predictions", "kept_predictions", {"moved": True}, "eval-accumulation-steps"),
    ("on the host", "kept_predictions", {"moved": False}, "eval-accumulation-steps"),
]
ROUNDING = 1e-5
IN_BF16 = 4e-3
"""One step between two neighbouring numbers in bfloat16."""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    """`name` with its remedy, `name-plain` without."""
    orders = []
    for name, job, arguments, remedy in ORDERS:
        asked = {"TRUEUP_REMEDIES": json.dumps([remedy])}
        orders += [
            Order(name, f"remedied.{job}", arguments, variables=asked),
            Order(f"{name}-plain", f"remedied.{job}", arguments, variables={"TRUEUP_REMEDIES": "[]"}),
        ]
    return run_jobs(tmp_path_factory.mktemp("remedied") / "run", orders, start_in_child=True)


def changes(done: Done) -> list[str]:
    return [event["detail"]["change"] for event in done.of("applier") if "change" in event["detail"]]


def limits(done: Done) -> int:
    """How often a function reached its limit of graphs and went on eager."""
    return int(done.result["unimplemented"])


def same_losses(done: dict[str, Done], name: str) -> bool:
    now, was = done[name].result, done[f"{name}-plain"].result
    return bool(now["losses"] == pytest.approx(was["losses"], rel=ROUNDING))


def same_gradients(done: dict[str, Done], name: str) -> bool:
    """None where there was None, and the same norms."""
    pairs = zip(done[name].result["gradients"], done[f"{name}-plain"].result["gradients"], strict=True)
    return all(now == (None if was is None else pytest.approx(was, rel=1e-3, abs=1e-6)) for now, was in _flat(pairs))


def _flat(pairs: Any) -> list[tuple[Any, Any]]:
    found = []
    for now, was in pairs:
        found += list(zip(now, was, strict=True)) if isinstance(was, list) else [(now, was)]
    return found


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


def test_adapters_of_a_frozen_base_get_gradients(done: dict[str, Done]) -> None:
    assert done["adapters"].result["without"] == []
    assert done["adapters-plain"].result["without"] != []
    assert done["adapters"].result["loss"] == pytest.approx(done["adapters-plain"].result["loss"])


def test_a_base_that_is_trained_is_left_alone(done: dict[str, Done]) -> None:
    assert changes(done["trained"]) == []
    assert done["trained"].result == done["trained-plain"].result


def test_predictions_moved_to_the_host_are_those_that_were_kept(done: dict[str, Done]) -> None:
    assert changes(done["predictions"]) == ["predictions of an evaluation moved to the host"]
    assert len(done["predictions"].result) > 20
    assert done["predictions"].result == done["predictions-plain"].result


def test_predictions_on_the_host_stay_there(done: dict[str, Done]) -> None:
    told = [event["detail"]["cannot"] for event in done["on the host"].of("applier")]
    assert told == ["the predictions lie in the memory of the host already"]
    assert done["on the host"].result == done["predictions-plain"].result


def test_tokens_go_to_the_experts_of_the_forward_pass(done: dict[str, Done]) -> None:
    assert "different metadata" in done["routed-plain"].result["recomputed"]
    assert done["routed"].result["recomputed"] == pytest.approx(done["routed"].result["kept"], rel=2e-2)


@pytest.mark.parametrize("name", ["repeatable", "drawn"])
def test_repeatable_experts_compute_the_same_with_their_decision_kept(done: dict[str, Done], name: str) -> None:
    assert changes(done[name])
    assert done[name].result["recomputed"] == pytest.approx(done[name].result["kept"], rel=ROUNDING)
    assert done[name].result == done[f"{name}-plain"].result


def test_a_list_that_grows_takes_one_graph_and_is_whole_between_the_steps(done: dict[str, Done]) -> None:
    now, was = done["appended"].result, done["appended-plain"].result
    assert limits(done["appended"]) == 0 < limits(done["appended-plain"])
    assert now["graphs"] == 1
    assert now["lengths"] == was["lengths"] == [0, 1, 2, 3, 4, 5]
    assert now["history"] == pytest.approx(was["history"], rel=ROUNDING)
    assert now["same"]
    assert same_losses(done, "appended")
    assert same_gradients(done, "appended")


@pytest.mark.parametrize("name", ["measured", "alias"])
def test_a_list_that_may_be_read_is_left_alone(done: dict[str, Done], name: str) -> None:
    assert changes(done[name]) == []
    assert done[name].result == done[f"{name}-plain"].result


@pytest.mark.parametrize("name", ["method", "function"])
def test_a_training_step_runs_its_network_compiled_and_itself_plain(done: dict[str, Done], name: str) -> None:
    now, was = done[name].result, done[f"{name}-plain"].result
    assert (now["breaks"], now["in_place"]) == (0, True)
    assert was["breaks"] > 0
    assert now["graphs"] >= 1
    assert same_losses(done, name)
    assert same_gradients(done, name)


def test_a_step_of_the_programs_own_stays_compiled(done: dict[str, Done]) -> None:
    assert changes(done["own"]) == []
    assert done["own"].result == done["own-plain"].result


def test_a_redirected_training_step_is_not_traced(done: dict[str, Done]) -> None:
    now = done["redirected"].result
    assert not any(now["traced"])
    assert now["graphs"] >= 1
    assert same_losses(done, "redirected")
    assert same_gradients(done, "redirected")
    assert any("without _orig_mod" in change for change in changes(done["redirected"]))


def test_a_compiled_function_is_part_of_the_graph_around_it(done: dict[str, Done]) -> None:
    assert done["whole graph"].result == done["whole graph-plain"].result


@pytest.mark.parametrize("name", ["packed", "single"])
def test_flash_attention_that_is_told_where_documents_begin_does_not_branch(done: dict[str, Done], name: str) -> None:
    now, was = done[name].result, done[f"{name}-plain"].result
    assert limits(done[name]) < limits(done[f"{name}-plain"])
    assert now["losses"] == pytest.approx(was["losses"], rel=IN_BF16)
    for new, old in zip(now["gradients"], was["gradients"], strict=True):
        assert new == pytest.approx(old, rel=5 * IN_BF16, abs=1e-4)
