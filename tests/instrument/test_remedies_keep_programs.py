"""What a job computes with each remedy that changes what the program itself does around its model."""

from __future__ import annotations

import pytest
from forked_jobs import Done
from remedied_jobs import ROUNDING, Remedied, changes, limits, same_gradients, same_losses, with_and_without

ORDERS: list[Remedied] = [
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
IN_BF16 = 4e-3
"""One step between two neighbouring numbers in bfloat16."""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    return with_and_without(tmp_path_factory.mktemp("remedied") / "run", ORDERS)


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
