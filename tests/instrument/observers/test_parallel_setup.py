"""Two ranks set up each kind of parallelism; each rank tells it, with the user's lines."""

import pytest
from observed_jobs import SCRIPTS, Process, line_of

JOB = "two_ranks.py"


@pytest.fixture(scope="module")
def job(run_job):
    return run_job(str(SCRIPTS / "torchrun"), "--nproc-per-node", "2", JOB)


@pytest.fixture(scope="module")
def rank(job):
    return Process(job.of("rank", 1))


def test_no_observer_is_switched_off(job):
    assert [Process(events).switched_off for events in job.processes] == [{}, {}, {}]


def test_torchrun_says_how_many_it_starts(job):
    (launcher,) = [event for event in job.of("launcher") if event["kind"] == "launcher"]
    assert (launcher["name"], launcher["processes"], launcher["per_node"], launcher["nodes"]) == ("torchrun", 2, 2, 1)
    assert launcher["started"] is None
    assert Process(job.of("launcher")).requests("launcher", "processes") == [(2, "torchrun")]


@pytest.mark.parametrize("number", [0, 1])
def test_the_process_group_tells_its_rank(job, number):
    init = Process(job.of("rank", number)).layer("init_process_group")
    assert init["at"] == line_of(JOB, "init")
    assert (init["detail"]["backend"], init["detail"]["world_size"], init["detail"]["rank"]) == ("gloo", 2, number)
    assert job.of("rank", number)[-1]["process_group"] == {"backend": "gloo", "world_size": 2, "rank": number}


def test_meshes_are_told(rank):
    mesh = rank.layer("mesh")
    assert mesh["at"] == line_of(JOB, "mesh")
    assert (mesh["detail"]["device"], mesh["detail"]["shape"], mesh["detail"]["names"]) == ("cpu", [2], ["dp"])


def test_ddp_is_told_with_its_options(rank):
    ddp = rank.layer("DistributedDataParallel")
    assert (ddp["module"], ddp["at"]) == ("Model", line_of(JOB, "ddp"))
    assert (ddp["detail"]["find_unused_parameters"], ddp["detail"]["static_graph"]) == (True, False)
    assert ddp["detail"]["params"] == 16
    assert ddp["detail"]["compiled_inside"] is False
    assert rank.layers("torch.compile")[0]["detail"]["around"] == ["DDP"]


def test_replicate_is_one_event_though_it_builds_a_ddp_at_the_first_forward(rank):
    assert rank.layer("replicate")["module"] == "Linear"


def test_fully_shard_is_told_call_by_call(rank):
    calls = [event for event in rank.layers("fully_shard") if event["module"] != "Linear"]
    assert [event["module"] for event in calls] == ["Block", "Block", "Block", "LayerNorm, Linear", "Model"]
    block, pair = calls[0], calls[3]
    assert block["at"] == line_of(JOB, "fully_shard")
    assert (block["detail"]["mesh"], block["detail"]["reshard_after_forward"]) == ([2], None)
    assert (block["detail"]["param_dtype"], block["detail"]["reduce_dtype"]) == ("bfloat16", "float32")
    assert block["detail"]["compiled_inside"] is True
    assert (pair["detail"]["reshard_after_forward"], pair["detail"]["compiled_inside"]) == (False, False)
    assert len(rank.layers("fully_shard", "Linear")) == 40


def test_order_of_compile_and_sharding_is_the_order_of_the_events(rank):
    names = [event["event"] for event in rank.events if event["kind"] == "layer" and event["module"] == "Block"]
    assert names[:4] == ["Module.compile", "fully_shard", "Module.compile", "fully_shard"]
    (whole,) = [e for e in rank.layers("torch.compile") if e["at"] == line_of(JOB, "compile around FSDP2")]
    assert (whole["module"], whole["detail"]["around"], whole["detail"]["blocks_inside"]) == ("Model", ["FSDP2"], 3)


def test_fsdp1_is_one_event_with_its_units(rank):
    old = rank.layer("FullyShardedDataParallel")
    assert (old["module"], old["at"]) == ("Model", line_of(JOB, "fsdp1"))
    assert old["detail"]["units"] == 4
    assert (old["detail"]["sharding_strategy"], old["detail"]["use_orig_params"]) == ("SHARD_GRAD_OP", True)
    assert old["detail"]["mixed_precision"] == {"param": "bfloat16", "reduce": None, "buffer": None}
    assert old["detail"]["auto_wrap_policy"] is True
    assert (old["detail"]["ignored_modules"], old["detail"]["ignored_parameters"]) == (1, 2)


def test_tensor_parallel_plan_is_one_event(rank):
    plan = rank.layer("parallelize_module")
    assert (plan["module"], plan["at"]) == ("Block", line_of(JOB, "tensor parallel"))
    assert (plan["detail"]["plan"], plan["detail"]["mesh"]) == (2, [2])
    assert plan["detail"]["styles"] == {"ColwiseParallel": 1, "RowwiseParallel": 1}


def test_requests_for_sharding_name_what_asked(rank):
    assert rank.requests("sharding", "strategy") == [
        ("DDP", "DistributedDataParallel"),
        ("DDP", "replicate"),
        ("FSDP2", "fully_shard"),
        ("FSDP1", "FullyShardedDataParallel"),
        ("TP", "parallelize_module"),
    ]
    assert ("bf16", "MixedPrecisionPolicy") in rank.requests("precision", "dtype")
