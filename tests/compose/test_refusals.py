"""Each plan that cannot work is refused before anything is changed, with the setting to change."""

import pytest
import torch
import torch.distributed as dist
from small import Block, Model
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel

import trueup
from trueup.compose.plan import Checkpointing, CompilePolicy, Plan

COMPILE = CompilePolicy(backend="aot_eager")
COLUMNS = {"layers.0.up": ColwiseParallel()}


@pytest.fixture
def group(tmp_path):
    """A process group of one rank."""
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    yield dist
    dist.destroy_process_group()


def mesh(*names):
    return dist.device_mesh.init_device_mesh("cpu", (1,) * len(names), mesh_dim_names=names)


def with_cache():
    model = Model()
    model.config = type("Config", (), {"use_cache": True})()
    return model


def quantized():
    model = Model()
    model.layers[0].up.weight = nn.Parameter(torch.zeros(4, 1, dtype=torch.uint8), requires_grad=False)
    return model


def partly_frozen():
    model = Model()
    model.layers[1].up.requires_grad_(False)
    return model


def of_two_dtypes():
    model = Model()
    model.layers[1].up.to(torch.bfloat16)
    return model


def in_place_compiled():
    model = Model()
    model.layers[0].compile(backend="eager")
    return model


TWO_DTYPES = r"layers\.1 holds torch\.bfloat16 and torch\.float32"

WITHOUT_RANKS = {
    "whole model compiled": (lambda: torch.compile(Model()), Plan(compile=COMPILE), "without torch.compile"),
    "a block compiled": (in_place_compiled, Plan(compile=COMPILE), "without torch.compile"),
    "no process group": (Model, Plan(sharding="fsdp2"), "torchrun"),
    "no process group for ddp": (Model, Plan(sharding="ddp"), r"Plan\(sharding='none'\)"),
    "no blocks": (lambda: nn.Linear(2, 2), Plan(compile=COMPILE), r"Plan\(blocks=\.\.\.\)"),
    "unknown block": (Model, Plan(blocks=("Blok",)), "Blok.*Block"),
    "reentrant": (
        Model,
        Plan(compile=COMPILE, checkpointing=Checkpointing(reentrant=True)),
        r"Checkpointing\(reentrant=False\)",
    ),
    "a cache in training": (with_cache, Plan(compile=COMPILE), "use_cache = False"),
    "a cache that is filled twice": (with_cache, Plan(checkpointing=Checkpointing()), "use_cache = False"),
    "tensor parallelism without a mesh": (Model, Plan(tensor_parallel=COLUMNS), r"Plan\(mesh=\.\.\.\).*'tp'"),
    "fp16 on a cpu": (Model, Plan(precision="fp16"), "bf16"),
}
WITH_RANKS = {
    "ddp in fsdp2": (lambda: nn.parallel.DistributedDataParallel(Model()), Plan(sharding="fsdp2"), "DDP already"),
    "fsdp2 in ddp": (lambda: fully_shard(Model()), Plan(sharding="ddp"), "FSDP2 already"),
    "checkpoints after fsdp2": (
        lambda: fully_shard(Model()),
        Plan(checkpointing=Checkpointing()),
        r"Plan\(sharding='fsdp2'\)",
    ),
    "integers in fsdp2": (quantized, Plan(sharding="fsdp2"), "bnb_4bit_quant_storage"),
    "integers in fsdp1": (quantized, Plan(sharding="fsdp1"), "bnb_4bit_quant_storage"),
    "flat parameters compiled": (
        Model,
        Plan(sharding="fsdp1", use_orig_params=False, compile=COMPILE),
        r"use_orig_params=True",
    ),
    "flat parameters partly frozen": (
        partly_frozen,
        Plan(sharding="fsdp1", use_orig_params=False),
        r"layers\.1.*use_orig_params=True",
    ),
    "two dtypes in fsdp1": (
        of_two_dtypes,
        Plan(sharding="fsdp1"),
        r"layers\.1 holds torch\.bfloat16 and torch\.float32",
    ),
    "two dtypes in fsdp2": (
        of_two_dtypes,
        Plan(sharding="fsdp2"),
        r"layers\.1 holds torch\.bfloat16 and torch\.float32",
    ),
}
WITH_MESH = {
    "tensor parallelism and fsdp1": (("dp", "tp"), {"sharding": "fsdp1"}, r"Plan\(sharding='fsdp2'\)"),
    "tensor parallelism and ddp": (("dp", "tp"), {"sharding": "ddp"}, r"Plan\(sharding='fsdp2'\)"),
    "no dimension for data": (("tp",), {"sharding": "fsdp2"}, "second dimension"),
    "dynamic shapes": (("tp",), {"compile": COMPILE}, "dynamic=False"),
}


def refused(model, plan, named):
    before = {name: id(module) for name, module in model.named_modules()}
    with pytest.raises(trueup.ComposeError, match=named):
        trueup.compose(model, plan)
    assert {name: id(module) for name, module in model.named_modules()} == before
    assert torch._dynamo.config.optimize_ddp is True


@pytest.mark.parametrize("case", WITHOUT_RANKS)
def test_refused(case):
    make, plan, named = WITHOUT_RANKS[case]
    refused(make(), plan, named)


@pytest.mark.parametrize("case", WITH_RANKS)
def test_refused_among_ranks(case, group):
    make, plan, named = WITH_RANKS[case]
    refused(make(), plan, named)


@pytest.mark.parametrize("case", WITH_MESH)
def test_refused_on_a_mesh(case, group):
    names, options, named = WITH_MESH[case]
    refused(Model(), Plan(tensor_parallel=COLUMNS, mesh=mesh(*names), **options), named)


def test_all_reasons_come_at_once():
    model = with_cache()
    with pytest.raises(trueup.ComposeError, match=r"process group.*use_cache"):
        trueup.compose(model, Plan(sharding="fsdp2", compile=COMPILE))


def test_a_checkpointed_model_is_not_checkpointed_twice():
    done = trueup.compose(Model(), Plan(checkpointing=Checkpointing()))
    refused(done.model, Plan(checkpointing=Checkpointing()), r"Plan\(checkpointing=None\)")


def test_partly_frozen_units_are_sharded_where_that_works(group):
    done = trueup.compose(partly_frozen(), Plan(sharding="fsdp1"))
    done.model(torch.randn(2, 8)).sum().backward()
    assert done.check().complete


def test_what_is_refused_fails_in_torch(group):
    """Were one of these to work in a later torch, its refusal would be wrong."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    cpu = torch.device("cpu")
    with pytest.raises(ValueError, match=r"integer dtype|torch\.uint8"):
        FullyShardedDataParallel(quantized(), device_id=cpu)
    with pytest.raises(ValueError, match="requires_grad"):
        FullyShardedDataParallel(partly_frozen(), device_id=cpu, use_orig_params=False)
    with pytest.raises((ValueError, AssertionError), match="dtype"):
        FullyShardedDataParallel(of_two_dtypes(), device_id=cpu)(torch.randn(2, 8))
    model = of_two_dtypes()
    fully_shard(model)
    with pytest.raises(AssertionError, match="uniform original parameter dtype"):
        model(torch.randn(2, 8))
    flat = Model()
    for block in flat.layers:
        block.compile(backend="eager", fullgraph=True)  # without it, it runs eager and says nothing
    flat = FullyShardedDataParallel(flat, device_id=cpu, use_orig_params=False)
    with pytest.raises(Exception, match="use_orig_params"):
        flat(torch.randn(2, 8))


@pytest.mark.parametrize(
    "wrong",
    [{"sharding": "zero"}, {"precision": "int8"}, {"blocks": "Block"}, {"compile": True}, {"checkpointing": "full"}],
)
def test_a_plan_that_means_nothing(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Plan(**wrong)


def test_a_plan_is_frozen():
    with pytest.raises(AttributeError):
        Plan().sharding = "ddp"


def test_named_blocks_are_the_outermost():
    outer = nn.Sequential(Block(8), nn.ModuleDict({"a": Block(8)}))
    done = trueup.compose(outer, Plan(blocks=("Block", "ModuleDict")))
    assert list(done.blocks) == ["0", "1"]


@pytest.mark.parametrize(("model", "plan"), [(3, trueup.Plan()), (torch.nn.Linear(1, 1), {"sharding": "ddp"})])
def test_what_is_no_model_or_no_plan_is_said(model, plan):
    with pytest.raises(TypeError, match=r"a torch\.nn\.Module and a trueup\.Plan are composed, not"):
        trueup.compose(model, plan)
