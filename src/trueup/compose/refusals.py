"""Plans that cannot work, each with the setting to change. Looked at before anything is applied."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trueup.compose.errors import ComposeError
from trueup.compose.plan import Plan
from trueup.instrument import inside

Blocks = Mapping[str, Any]


def refuse(model: Any, plan: Plan, blocks: Blocks) -> None:
    """Raise ComposeError with every reason why `plan` cannot work on `model`."""
    reasons = [reason for look in REFUSALS for reason in look(model, plan, blocks)]
    if reasons:
        raise ComposeError("; ".join(reasons))


def already_wrapped(model: Any, plan: Plan, blocks: Blocks) -> Iterator[str]:
    inside.make_importable()
    from trueup_instrument.wrappers import wrappers_inside

    present = wrappers_inside(model)
    data_parallel = [name for name in present if name in ("FSDP1", "FSDP2", "DDP")]
    if data_parallel and plan.sharding != "none":
        yield (
            f"the model is wrapped in {data_parallel[0]} already, and {_shown(plan)} would be a second data "
            "parallelism: give the model as it was before, or set Plan(sharding='none')"
        )
    elif data_parallel and (plan.checkpointing or plan.tensor_parallel):
        yield (
            f"the model is wrapped in {data_parallel[0]}, which comes after checkpointing and tensor parallelism: "
            f"give the model as it was before, and Plan(sharding={data_parallel[0].lower()!r})"
        )
    if plan.checkpointing and "checkpoint" in present:
        yield (
            "the model checkpoints its blocks itself: call gradient_checkpointing_disable(), or set "
            "Plan(checkpointing=None)"
        )


def already_compiled(model: Any, plan: Plan, blocks: Blocks) -> Iterator[str]:
    inside.make_importable()
    from trueup_instrument.wrappers import compiled_parts

    if compiled_parts(model):
        yield (
            "the model is compiled already, whole or in parts: around FSDP's hooks a whole model breaks in a loop; "
            "give the model without torch.compile, and set Plan(compile=CompilePolicy())"
        )


def no_blocks(model: Any, plan: Plan, blocks: Blocks) -> Iterator[str]:
    if not blocks and (plan.compile or plan.checkpointing):
        yield "no repeated blocks were found in the model: name their classes in Plan(blocks=...)"


def no_process_group(model: Any, plan: Plan, blocks: Blocks) -> Iterator[str]:
    import torch

    started = torch.distributed.is_available() and torch.distributed.is_initialized()
    if plan.sharding != "none" and not started:
        yield (
            f"{_shown(plan)} needs a process group: start the script with torchrun and call "
            "torch.distributed.init_process_group() first, or set Plan(sharding='none')"
        )


def tensor_parallel(model: Any, plan: Plan, blocks: Blocks) -> Iterator[str]:
    if not plan.tensor_parallel:
        return
    if "tp" not in (getattr(plan.mesh, "mesh_dim_names", None) or ()):
        yield "Plan(tensor_parallel=...) needs Plan(mesh=...) with a dimension named 'tp'"
    elif plan.sharding in ("fsdp1", "ddp"):
        yield f"tensor parallelism leaves DTensors, which {_shown(plan)} does not take: set Plan(sharding='fsdp2')"
    elif plan.sharding == "fsdp2" and plan.mesh.ndim < 2:
        yield "FSDP2 beside tensor parallelism needs a second dimension in Plan(mesh=...), for example ('dp', 'tp')"
    if plan.compile and plan.compile.dynamic is not False:
        # https://github.com/pytorch/torchtitan/issues/1081; torch 2.13: RecursionError at the second sequence length
        yield "DTensors of tensor parallelism do not compile with dynamic shapes: set CompilePolicy(dynamic=False)"


def reentrant_and_compiled(model: Any, plan: Plan, blocks: Blocks) -> Iterator[str]:
    if plan.compile and plan.checkpointing and plan.checkpointing.reentrant:
        yield (
            "a reentrant checkpoint cannot be captured in a compiled block: set Checkpointing(reentrant=False), or "
            "Plan(compile=None)"
        )


def cache_in_training(model: Any, plan: Plan, blocks: Blocks) -> Iterator[str]:
    config = getattr(model, "config", None)
    if getattr(config, "use_cache", False) is True and (plan.compile or plan.checkpointing):
        yield (
            "each block would fill a key/value cache, for which it is compiled again and which a checkpoint would fill "
            "twice: set model.config.use_cache = False"
        )


def parameters(model: Any, plan: Plan, blocks: Blocks) -> Iterator[str]:
    """What FSDP cannot shard."""
    if not plan.sharding.startswith("fsdp"):
        return
    stored = sorted({str(p.dtype) for p in model.parameters() if not p.is_floating_point() and not p.is_complex()})
    if stored:
        yield (
            f"weights stored as {', '.join(stored)} cannot be sharded by {_shown(plan)}, which would corrupt or refuse "
            "them: store them as floats (bnb_4bit_quant_storage=torch.bfloat16), or set Plan(sharding='ddp')"
        )
        return
    for name, unit in _units(model, blocks):
        dtypes = sorted({str(p.dtype) for p in unit if p.requires_grad or plan.sharding == "fsdp1"})
        if len(dtypes) > 1:
            yield (
                f"{name} holds {' and '.join(dtypes)}, and a unit of {_shown(plan)} has one dtype: cast the model to "
                "one, model.float() for example, and set Plan(precision=...)"
            )
            return


def flattened(model: Any, plan: Plan, blocks: Blocks) -> Iterator[str]:
    """What FSDP1 cannot do without the parameters as they were."""
    if plan.sharding != "fsdp1" or plan.use_orig_params:
        return
    if plan.compile:
        yield "Dynamo takes no FSDP1 whose parameters are flattened: set Plan(use_orig_params=True)"
    for name, unit in _units(model, blocks):
        if len({parameter.requires_grad for parameter in unit}) > 1:
            yield (
                f"{name} holds frozen and trained parameters, which FSDP1 cannot flatten into one: set "
                "Plan(use_orig_params=True)"
            )
            return


def low_precision_on_cpu(model: Any, plan: Plan, blocks: Blocks) -> Iterator[str]:
    device = next((parameter.device.type for parameter in model.parameters()), "cpu")
    if plan.precision == "fp16" and device == "cpu":
        yield "fp16 needs a GPU: move the model there before it is composed, or set Plan(precision='bf16')"


REFUSALS: tuple[Callable[[Any, Plan, Blocks], Iterator[str]], ...] = (
    already_wrapped,
    already_compiled,
    no_blocks,
    no_process_group,
    tensor_parallel,
    reentrant_and_compiled,
    cache_in_training,
    parameters,
    flattened,
    low_precision_on_cpu,
)


def _units(model: Any, blocks: Blocks) -> Iterator[tuple[str, list[Any]]]:
    """(name, parameters) of what becomes one unit of FSDP: each block, and the rest."""
    taken: set[int] = set()
    for name, block in blocks.items():
        unit = [parameter for parameter in block.parameters() if id(parameter) not in taken]
        taken.update(map(id, unit))
        yield f"block {name}", unit
    yield "the rest of the model", [parameter for parameter in model.parameters() if id(parameter) not in taken]


def _shown(plan: Plan) -> str:
    return {"fsdp1": "FSDP1", "fsdp2": "FSDP2", "ddp": "DDP", "none": "no sharding"}[plan.sharding]
