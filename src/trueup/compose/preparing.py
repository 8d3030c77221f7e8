"""`trueup.prepare`: what `Accelerator.prepare` does, with each block compiled at the right time.

Accelerate compiles a model whole, before FSDP2 and after the others. Here it compiles nothing, and the blocks are
compiled in place once they hold whatever Accelerate puts into them.
"""

from __future__ import annotations

import os
from typing import Any

from trueup.compose.blocks import blocks_of
from trueup.compose.compiling import compile_blocks
from trueup.compose.composed import Composed, of_models
from trueup.compose.errors import ComposeError
from trueup.compose.plan import CompilePolicy, Plan
from trueup.compose.refusals import Blocks, already_compiled, cache_in_training, no_blocks
from trueup.instrument import inside


def prepare(accelerator: Any, *objects: Any, policy: CompilePolicy | None = None, blocks: tuple[str, ...] = ()) -> Any:
    """The objects as `accelerator.prepare` returns them; blocks of each model among them are compiled by `policy`.

    `blocks` are class names, as in `Plan`. `trueup.composition(model)` gives what was done to a prepared model.
    Raises ComposeError, before anything is prepared, for settings that cannot work together.
    """
    import torch

    plan = Plan(blocks=blocks, compile=policy or CompilePolicy())
    models = [thing for thing in objects if isinstance(thing, torch.nn.Module)]
    _refuse(accelerator, plan, {model: blocks_of(model, plan) for model in models})
    names = {id(parameter): (model, name) for model in models for name, parameter in _named(model)}
    prepared = accelerator.prepare(*objects)
    results = prepared if isinstance(prepared, tuple) else (prepared,)
    became = {id(before): after for before, after in zip(objects, results, strict=True)}
    for model in models:
        _compile(became[id(model)], plan)
    for before, after in zip(objects, results, strict=True):
        if isinstance(before, torch.optim.Optimizer):
            _bind(getattr(after, "optimizer", after), names, became)
    return prepared


def composition(model: Any) -> Composed:
    """What was done to a model by `prepare` or `compose`. Raises KeyError for another model."""
    return of_models[model]


def _compile(model: Any, plan: Plan) -> None:
    """After Accelerate has wrapped: its checkpoints are then in the graph, its FSDP and DDP hooks around it."""
    done = Composed(model, plan, {name: _beneath(block) for name, block in blocks_of(model, plan).items()})
    if any(type(part).__name__ == "DistributedDataParallel" for part in model.modules()):
        done.set_dynamo("optimize_ddp", False)  # blocks are cut already; see trueup.compose.sharding.replicate
    compile_blocks(done)
    done.sealed()


def _beneath(block: Any) -> Any:
    """What FSDP1 wraps: its own hooks stay outside of the graph."""
    inner = block._modules.get("_fsdp_wrapped_module")
    return block if inner is None else inner


def _refuse(accelerator: Any, plan: Plan, models: dict[Any, Blocks]) -> None:
    reasons: list[str] = []
    state = accelerator.state
    backend = str(getattr(state.dynamo_plugin, "backend", "no"))
    if not backend.lower().endswith("no"):
        reasons.append(
            "Accelerate would compile the whole model as well: set dynamo_backend='no' (in Accelerator(...), in the "
            "YAML file's dynamo_config, or as ACCELERATE_DYNAMO_BACKEND)"
        )
    kind = str(getattr(state, "distributed_type", ""))
    plugin = getattr(state, "fsdp_plugin", None)
    if kind.endswith(("DEEPSPEED", "MEGATRON_LM")):
        reasons.append(f"{kind.rpartition('.')[2]} has an engine of its own, not compiled here: use FSDP or DDP")
    if _asks_for_fsdp() and not kind.endswith("FSDP"):
        reasons.append(
            f"Accelerate shards nothing on this device ({kind.rpartition('.')[2]}) and ignores the FSDP plugin: leave "
            "fsdp_plugin (use_fsdp) out, or use trueup.compose with Plan(sharding='fsdp2'), which works on a CPU"
        )
    if plugin is not None and getattr(plugin, "fsdp_version", 1) == 1 and not plugin.use_orig_params:
        reasons.append("Dynamo takes no FSDP1 whose parameters are flattened: set fsdp_use_orig_params: true")
    for model, blocks in models.items():
        for look in (already_compiled, no_blocks, cache_in_training):
            reasons += look(model, plan, blocks)
    if reasons:
        raise ComposeError("; ".join(reasons))


def _asks_for_fsdp() -> bool:
    """Accelerator sets this when it is given a plugin, and keeps no plugin where it ignores it."""
    return os.environ.get("ACCELERATE_USE_FSDP", "").lower() in ("true", "1")


def _named(model: Any) -> list[tuple[str, Any]]:
    """Parameters by the names that they had before anything was wrapped."""
    inside.make_importable()
    from trueup_instrument.appliers.binding import plain_name

    return [(plain_name(name), parameter) for name, parameter in model.named_parameters()]


def _bind(optimizer: Any, names: dict[int, tuple[Any, str]], became: dict[int, Any]) -> None:
    """Give the optimizer the parameters that its model has now, where wrapping has replaced those it was made with."""
    present: dict[int, dict[str, Any]] = {}
    for group in optimizer.param_groups:
        for index, parameter in enumerate(group["params"]):
            model, name = names.get(id(parameter), (None, ""))
            if model is None:
                continue
            now = present.setdefault(id(model), dict(_named(became[id(model)]))).get(name)
            if now is not None and now is not parameter:
                group["params"][index] = now
                optimizer.state.pop(parameter, None)
