"""FSDP2, FSDP1 and DDP over all ranks."""

from __future__ import annotations

from trueup.procedures.reproduction.parts.part import Part, keywords
from trueup.procedures.reproduction.recipe import Recipe, Step


def fully_shard(step: Step, recipe: Recipe) -> Part:
    """FSDP2, each block or the root."""
    policy = keywords(
        param_dtype=_dtype(step.options.get("param_dtype")), reduce_dtype=_dtype(step.options.get("reduce_dtype"))
    )
    given = keywords(reshard_after_forward=step.options.get("reshard_after_forward"))
    arguments = ", ".join(["", *filter(None, [given, policy and f"mp_policy=MixedPrecisionPolicy({policy})"])])
    names = "MixedPrecisionPolicy, fully_shard" if policy else "fully_shard"
    imports = (f"from torch.distributed.fsdp import {names}",)
    if step.scope == "model":
        return Part(imports=imports, lines=(f"fully_shard(model{arguments})",))
    return Part(imports=imports, lines=("for block in blocks:", f"    fully_shard(block{arguments})"), blocks=True)


def fsdp(step: Step, recipe: Recipe) -> Part:
    """FSDP1, with a unit for each block where the job had a policy."""
    options = step.options
    imports = ["from torch.distributed.fsdp import FullyShardedDataParallel as FSDP"]
    strategy = options.get("sharding_strategy")
    lines: list[str] = []
    given = []
    if options.get("auto_wrap_policy") == "class":
        imports.append("from torch.distributed.fsdp.wrap import ModuleWrapPolicy")
        given.append("auto_wrap_policy=ModuleWrapPolicy({type(blocks[0])})")
    elif options.get("auto_wrap_policy"):
        imports.append("from functools import partial")
        imports.append("from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy")
        lines.append("policy = partial(transformer_auto_wrap_policy, transformer_layer_cls={type(blocks[0])})")
        given.append("auto_wrap_policy=policy")
    if strategy not in (None, "FULL_SHARD"):
        imports.append("from torch.distributed.fsdp import ShardingStrategy")
        given.append(f"sharding_strategy=ShardingStrategy.{strategy}")
    given += ["use_orig_params=True"] if options.get("use_orig_params") else []
    given += ['device_id=torch.device("cpu")'] if recipe.device == "cpu" else []
    lines.append(f"model = FSDP({', '.join(['model', *given])})")
    return Part(imports=tuple(imports), lines=tuple(lines), blocks=bool(options.get("auto_wrap_policy")))


def ddp(step: Step, recipe: Recipe) -> Part:
    """DistributedDataParallel."""
    names = ("find_unused_parameters", "static_graph", "gradient_as_bucket_view")
    given = keywords(**{name: step.options.get(name) or None for name in names})
    return Part(
        imports=("from torch.nn.parallel import DistributedDataParallel",),
        lines=(f"model = DistributedDataParallel(model{', ' if given else ''}{given})",),
    )


def _dtype(name: str | None) -> str | None:
    return f"torch.{name}" if name else None
