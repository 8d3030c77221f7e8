"""Data parallelism: FSDP2, FSDP1 or DDP around blocks that are ready for it."""

from __future__ import annotations

from typing import Any

from trueup.compose.composed import Composed
from trueup.compose.precision import torch_dtype


def shard_fsdp2(done: Composed) -> None:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    plan = done.plan
    options: dict[str, Any] = {
        "mesh": _data_mesh(done),
        "reshard_after_forward": plan.reshard_after_forward,
        **plan.sharding_options,
    }
    if plan.precision != "fp32":
        policy = MixedPrecisionPolicy(torch_dtype(plan.precision), torch_dtype(plan.reduce_dtype))
        options = {"mp_policy": policy, **options}
        done.applied_layer("precision", f"FSDP2 policy {plan.precision}, reduced in {plan.reduce_dtype}")
    for block in done.blocks.values():
        fully_shard(block, **options)
    fully_shard(done.model, **options)
    done.applied_layer("sharding", f"FSDP2 over {options['mesh'].size()} ranks", len(done.blocks) + 1)


def shard_fsdp1(done: Composed) -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy
    from torch.distributed.fsdp.wrap import CustomPolicy

    plan = done.plan
    units = {id(block) for block in done.blocks.values()}
    strategy = ShardingStrategy.FULL_SHARD if plan.reshard_after_forward else ShardingStrategy.SHARD_GRAD_OP
    options: dict[str, Any] = {
        "auto_wrap_policy": CustomPolicy(lambda module: id(module) in units),
        "sharding_strategy": strategy,
        "use_orig_params": plan.use_orig_params,
        "device_id": done.device,
        **({"device_mesh": plan.mesh} if plan.mesh is not None else {}),
        **plan.sharding_options,
    }
    if plan.precision != "fp32":
        # buffers keep their dtype: rotary embeddings lose positions in bf16
        policy = MixedPrecision(param_dtype=torch_dtype(plan.precision), reduce_dtype=torch_dtype(plan.reduce_dtype))
        options = {"mixed_precision": policy, **options}
        done.applied_layer("precision", f"FSDP1 policy {plan.precision}, reduced in {plan.reduce_dtype}")
    done.model = FullyShardedDataParallel(done.model, **options)
    done.applied_layer("sharding", f"FSDP1/{options['sharding_strategy'].name}", len(done.blocks) + 1)


def replicate(done: Composed) -> None:
    from torch.nn.parallel import DistributedDataParallel

    plan = done.plan
    if plan.compile:
        # DDP's splitter cuts a graph at its buckets, to reduce while backward runs. Blocks are cut already, and hooks
        # fire between them: without it each stays one graph, checkpoints in it included.
        done.set_dynamo("optimize_ddp", False)
    mesh = {"device_mesh": plan.mesh} if plan.mesh is not None else {}
    done.model = DistributedDataParallel(done.model, **mesh, **plan.sharding_options)
    done.applied_layer("sharding", "DDP", 1)


def _data_mesh(done: Composed) -> Any:
    """The dimensions of the mesh that hold data: all but `tp`."""
    import torch

    mesh = done.plan.mesh
    if mesh is None:
        return torch.distributed.init_device_mesh(done.device.type, (torch.distributed.get_world_size(),))
    names = tuple(name for name in mesh.mesh_dim_names or () if name != "tp")
    return mesh[names if len(names) > 1 else names[0]] if names and len(names) < mesh.ndim else mesh
