"""What torch alone is asked to do before training is told in order, with the user's lines."""

import sys

import pytest
from observed_jobs import Process, line_of

JOB = "plain_torch.py"


@pytest.fixture(scope="module")
def job(run_job):
    return Process(run_job(sys.executable, JOB).of("rank"))


def test_no_observer_is_switched_off(job):
    assert job.switched_off == {}


def test_a_whole_model_is_told_from_a_block_by_the_row_of_blocks_inside_it(job):
    whole, around_checkpoints = job.layers("torch.compile", "Model")
    assert whole["at"] == line_of(JOB, "whole model")
    assert whole["detail"]["target"] == "module"
    assert (whole["detail"]["whole_model"], whole["detail"]["blocks_inside"]) == (True, 6)
    assert (whole["detail"]["backend"], whole["detail"]["dynamic"]) == ("eager", True)
    assert whole["detail"]["around"] == []
    assert around_checkpoints["detail"]["around"] == ["checkpoint"]
    block = job.layers("torch.compile", "Block")[0]["detail"]
    assert (block["whole_model"], block["blocks_inside"]) == (False, 0)


def test_experts_make_no_model_of_a_block(job):
    detail = job.layer("torch.compile", "Mixture")["detail"]
    assert (detail["whole_model"], detail["blocks_inside"]) == (False, 0)


def test_compile_in_place_is_one_event_a_block_and_no_event_of_the_torch_compile_beneath(job):
    blocks = job.layers("Module.compile", "Block")
    assert [block["at"] for block in blocks] == [line_of(JOB, "per block")] * 6
    assert not any(event["at"] == line_of(JOB, "per block") for event in job.layers("torch.compile"))


def test_classes_with_a_forward_of_torch_are_told(job):
    assert job.layer("Module.compile", "TransformerEncoderLayer")["detail"]["builtin"] is True
    assert job.layer("Module.compile", "Stack")["detail"]["builtin"] is True
    assert job.layer("torch.compile", "Linear")["detail"]["builtin"] is True
    assert job.layers("Module.compile", "Block")[0]["detail"]["builtin"] is False


def test_decorators_with_and_without_arguments_are_seen_once_with_their_arguments(job):
    scaled = job.layer("torch.compile", "scaled")
    assert scaled["at"] == line_of(JOB, "decorator with arguments")
    assert (scaled["detail"]["target"], scaled["detail"]["fullgraph"]) == ("function", True)
    assert scaled["detail"]["by"] is None
    plain = job.layer("torch.compile", "plain")["detail"]
    assert (plain["backend"], plain["fullgraph"]) == ("inductor", False)


def test_methods_of_modules_and_of_optimizers_are_told(job):
    step = job.layer("torch.compile", "AdamW.step")["detail"]
    assert step["target"] == "method"
    assert "class" not in step
    forward = job.layer("torch.compile", "Model.forward")["detail"]
    assert (forward["target"], forward["class"], forward["whole_model"]) == ("method", "Model", True)


def test_a_thousand_blocks_make_no_thousand_events(job):
    events = job.layers("torch.compile", "Block")
    assert len(events) == 40
    assert [event["detail"].get("later_not_listed", False) for event in events] == [False] * 39 + [True]


def test_requests_for_compile_name_every_target(job):
    names, source = job.requests("compile", "module")[-1]
    assert names.split(", ")[:3] == ["Model", "Linear", "Mixture"]
    assert source == "torch.compile"
    assert ("inductor", "torch.compile") in job.requests("compile", "backend")
    assert job.requests("compile", "dynamic") == [(True, "torch.compile")]


def test_checkpoint_wrapping_counts_the_blocks(job):
    single, _ = job.layers("checkpoint_wrapper")
    assert (single["module"], single["at"]) == ("Block", line_of(JOB, "checkpoint wrapper"))
    assert (single["detail"]["count"], single["detail"]["reentrant"]) == (1, False)
    applied = job.layer("apply_activation_checkpointing")
    assert (applied["module"], applied["detail"]["count"]) == ("Model", 6)
    assert job.requests("checkpointing", "enabled")[0] == (True, "checkpoint_wrapper")


def test_selective_checkpointing_is_told_by_its_contexts(job):
    full, selective = job.layers("checkpoint_wrapper")
    assert selective["at"] == line_of(JOB, "selective checkpoint")
    assert (full["detail"]["selective"], full["detail"]["compiled_inside"]) == (False, False)
    assert (selective["detail"]["selective"], selective["detail"]["compiled_inside"]) == (True, True)


def test_only_moves_that_change_something_are_events(job):
    to, half = job.layers("to")
    assert to["at"] == line_of(JOB, "to")
    assert (to["detail"]["call"], to["detail"]["dtype"], to["detail"]["dtype_before"]) == ("to", "bfloat16", "float32")
    assert (half["detail"]["call"], half["detail"]["dtype"], half["detail"]["device"]) == ("half", "float16", "cpu")


def test_loading_tells_missing_and_unexpected_keys(job):
    with_extra, partial, *_ = job.layers("load_state_dict")
    assert (with_extra["detail"]["missing"], with_extra["detail"]["unexpected_names"]) == (0, ["extra"])
    assert partial["at"] == line_of(JOB, "load state dict")
    assert (partial["detail"]["missing"], partial["detail"]["unexpected"]) == (2, 0)
    assert partial["detail"]["missing_names"] == ["head.bias", "head.weight"]
    assert (partial["detail"]["prefixed_file"], partial["detail"]["untouched"]) == (False, {})


def test_loading_tells_what_stayed_as_it_was_after_a_file_of_a_compiled_module(job):
    *_, nothing, head_only, all_of_it = (each["detail"] for each in job.layers("load_state_dict"))
    assert nothing["prefixed_file"]
    assert (nothing["given"], nothing["missing"], nothing["untouched"]) == (26, 0, {"Model": 1})
    assert head_only["untouched"] == {"Block": 6}
    assert all_of_it["untouched"] == {}


def test_optimizers_tell_what_they_hold(job):
    adam = job.layer("Optimizer", "AdamW")
    assert adam["at"] == line_of(JOB, "optimizer")
    assert (adam["detail"]["groups"], adam["detail"]["tensors"], adam["detail"]["elements"]) == (1, 26, 882)
    assert (adam["detail"]["lr"], adam["detail"]["foreach"]) == (1e-3, False)
    assert job.layer("Optimizer", "SGD")["detail"]["lr"] == "tensor"


def test_scaler_and_stance_are_told(job):
    assert job.layer("GradScaler")["detail"]["enabled"] is False
    assert [event["detail"]["stance"] for event in job.layers("set_stance")] == ["eager_on_recompile", "default"]


def test_compiled_autograd_is_told_once(job):
    (event,) = job.layers("compiled_autograd")
    assert event["at"] == line_of(JOB, "compiled autograd")
    assert not [each for each in job.layers("torch.compile") if str(each["module"]).startswith("CompiledAutograd")]


def test_the_torch_build_is_told(job):
    (torch,) = [event for event in job.events if event["kind"] == "library" and event["name"] == "torch"]
    import importlib.metadata

    assert torch["version"] == importlib.metadata.version("torch")
    assert torch["detail"]["num_threads"] >= 1
    assert len(torch["detail"]["git"]) == 40
