"""transformers, PEFT, Trainer and Accelerate: what was asked for, and what their own state says of it."""

import sys

import pytest
from observed_jobs import SCRIPTS, Process, line_of

JOB = "hugging_face.py"


@pytest.fixture(scope="module")
def job(run_job):
    return Process(run_job(sys.executable, JOB).of("rank"))


@pytest.fixture(scope="module")
def accelerated(run_job):
    return run_job(str(SCRIPTS / "torchrun"), "--nproc-per-node", "2", "accelerated.py")


def test_no_observer_is_switched_off(job, accelerated):
    assert job.switched_off == {}
    assert [Process(events).switched_off for events in accelerated.processes] == [{}, {}, {}]


def test_attention_requested_and_chosen_is_told_once_a_model(job):
    asked, plain, loaded, switched = job.layers("config")[:4]
    assert (asked["module"], asked["at"]) == ("LlamaForCausalLM", line_of(JOB, "asked for eager"))
    assert (asked["detail"]["requested"], asked["detail"]["attn_implementation"]) == ("eager", "eager")
    assert asked["detail"]["use_cache"] is True
    assert (plain["detail"]["requested"], plain["detail"]["attn_implementation"]) == (None, "sdpa")
    assert plain["detail"]["use_cache"] is False
    assert (loaded["at"], loaded["detail"]["requested"]) == (line_of(JOB, "from_pretrained"), "sdpa")
    assert switched["detail"]["attn_implementation"] == "eager"
    assert [value for value, _ in job.requests("attention", "implementation")] == ["eager", "sdpa", "eager"]


def test_loading_a_checkpoint_tells_its_missing_keys(job):
    loading = job.layer("load_state_dict")
    assert loading["at"] == line_of(JOB, "from_pretrained")
    assert loading["detail"]["by"] == "from_pretrained"
    assert loading["detail"]["missing_names"] == ["model.layers.1.mlp.up_proj.weight"]
    assert loading["detail"]["unexpected_names"] == ["extra.weight"]


def test_a_move_through_the_override_of_transformers_is_the_users(job):
    assert [move["at"] for move in job.layers("to")] == [line_of(JOB, "to")]


def test_gradient_checkpointing_tells_what_the_model_then_holds(job):
    (enabled,) = job.layers("gradient_checkpointing_enable")
    assert enabled["at"] == line_of(JOB, "checkpointing")
    assert (enabled["detail"]["use_reentrant"], enabled["detail"]["count"]) == (True, 4)
    assert job.requests("checkpointing", "reentrant") == [(True, "gradient_checkpointing_enable")]


def test_regional_compile_is_one_event_with_the_number_of_regions(job):
    regions = job.layer("compile_regions")
    assert (regions["module"], regions["at"]) == ("LlamaForCausalLM", line_of(JOB, "regions"))
    assert regions["detail"]["compiled"] == 4 + 4  # blocks; embedding, norm, rotary embedding and head
    assert job.layers("torch.compile") == []


def test_adapters_tell_their_share(job):
    adapter = job.layers("get_peft_model")[0]
    assert (adapter["module"], adapter["at"]) == ("LlamaForCausalLM", line_of(JOB, "peft"))
    assert (adapter["detail"]["peft_type"], adapter["detail"]["r"]) == ("LORA", 4)
    assert adapter["detail"]["target_modules"] == ["q_proj", "v_proj"]
    assert adapter["detail"]["trainable"] == 4 * 2 * 4 * (16 + 16)  # blocks, projections, rank, both matrices
    assert adapter["detail"]["total"] > adapter["detail"]["trainable"]
    assert job.requests("adapter", "type") == [("LORA", "get_peft_model")]
    kbit = job.layer("prepare_model_for_kbit_training")
    assert (kbit["module"], kbit["detail"]["use_gradient_checkpointing"]) == ("LlamaForCausalLM", False)


def test_training_arguments_are_requests(job):
    assert job.requests("compile", "torch_compile") == [(True, "TrainingArguments.torch_compile")]
    assert ("bf16", "TrainingArguments.bf16") in job.requests("precision", "dtype")
    assert (True, "TrainingArguments.gradient_checkpointing") in job.requests("checkpointing", "enabled")
    trainer = job.layer("Trainer")
    assert (trainer["module"], trainer["at"]) == ("PeftModel", line_of(JOB, "trainer"))
    assert trainer["detail"]["args"]["gradient_accumulation_steps"] == 2


def test_a_sharding_plugin_that_accelerate_ignores_stays_requested(accelerated):
    rank = Process(accelerated.of("rank", 0))
    assert rank.requests("sharding", "strategy") == [("FSDP2", "fsdp_plugin")]
    state = rank.layer("Accelerator")
    assert state["at"] == line_of("accelerated.py", "accelerator")
    assert (state["detail"]["distributed_type"], state["detail"]["num_processes"]) == ("MULTI_CPU", 2)
    assert (state["detail"]["mixed_precision"], state["detail"]["gradient_accumulation_steps"]) == ("bf16", 4)
    assert state["detail"]["fsdp_version"] is None
    assert (state["detail"]["dynamo_backend"], state["detail"]["regional"]) == ("eager", True)


def test_an_adapter_beside_the_first_is_told_and_which_was_chosen(job):
    added, chosen = job.layer("add_adapter"), job.layer("set_adapter")
    assert (added["detail"]["adapter"], added["at"]) == ("second", line_of(JOB, "second adapter"))
    assert chosen["detail"]["adapter"] == "second"


def test_prepare_tells_what_it_was_given_and_what_it_made(accelerated):
    rank = Process(accelerated.of("rank", 0))
    prepared = rank.layer("Accelerator.prepare")
    assert (prepared["module"], prepared["at"]) == ("Model, AdamW", line_of("accelerated.py", "prepare"))
    assert prepared["detail"]["models"] == 1
    assert prepared["detail"]["out"] == ["DistributedDataParallel", "AcceleratedOptimizer"]
    order = [event["event"] for event in rank.events if event["kind"] == "layer"]
    assert order[-3:] == ["DistributedDataParallel", "compile_regions", "Accelerator.prepare"]
