"""What the model is: parameters, how they are sharded, adapters, and what the optimizers hold of them."""

from __future__ import annotations

import sys

from trueup_instrument import modules
from trueup_instrument.adapter_names import is_adapter
from trueup_instrument.attributes import plain_attribute
from trueup_instrument.observers.samples import parameters
from trueup_instrument.wrappers import KEPT_WHOLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trueup_instrument.session import Session

NAME = "model"
SHOWN = 40


def describe(session: Session) -> dict[str, Any] | None:
    """The fields of a `model` event, or None when no module holds a parameter that is trained."""
    live = modules.live_modules()
    held = parameters.of_optimizers(session)
    every = modules.roots_of(live)
    roots = trained_roots(every, held)
    if not roots:
        return None
    names = parameters.names_of(roots)
    own = {id(p): p for root in roots for p in root.parameters()}
    blocks = [block for root in roots for _, block in modules.blocks_of(root)]
    return {
        "roots": [{"class": modules.class_name(root), "trained": root in roots} for root in every],
        "blocks": {"total": len(blocks), "classes": sorted({modules.class_name(block) for block in blocks})},
        "training": sum(plain_attribute(modules.bare(block), "training") is not False for block in blocks),
        "parameters": _parameters(own),
        "sharding": sharding(roots, own),
        "adapter": _adapter(own, names),
        "optimizer": _optimizer(own, held, names, session),
        "compile_entries": sum(_is_entry(module) for root in roots for module in root.modules()),
        "tied": _tied(roots),
        "shared": sum(len(modules.shared_parameters(root)) for root in roots),
        "devices": _devices(own),
        "checkpointing": any(
            plain_attribute(m, "gradient_checkpointing") is True for root in roots for m in root.modules()
        ),
    }


def optimizers_of(session: Session) -> list[Any]:
    return list(getattr(session, "optimizers", ()))


def trained_roots(roots: list[Any], held: dict[int, Any]) -> list[Any]:
    """The roots whose parameters an optimizer holds; when none does (all were replaced), those that can be trained."""
    trained = [root for root in roots if any(id(p) in held for p in root.parameters())]
    return trained or [root for root in roots if any(p.requires_grad for p in root.parameters())]


def _is_entry(module: Any) -> bool:
    return plain_attribute(module, "_compiled_call_impl") is not None or "_orig_mod" in module._modules


def _devices(own: dict[int, Any]) -> list[str]:
    """Names of the devices that hold the parameters: `cpu`, or what the driver calls a GPU."""
    found = set()
    for parameter in own.values():
        device = parameter.device
        if device.type == "cuda":
            found.add(sys.modules["torch"].cuda.get_device_name(device))
        else:
            found.add(device.type)
    return sorted(found)


def _parameters(own: dict[int, Any]) -> dict[str, Any]:
    dtypes: dict[str, int] = {}
    for parameter in own.values():
        name = parameters.dtype_name(parameter)
        dtypes[name] = dtypes.get(name, 0) + parameters.elements_everywhere(parameter)
    trained = [p for p in own.values() if p.requires_grad]
    return {
        "tensors": len(own),
        "elements": sum(parameters.elements_everywhere(p) for p in own.values()),
        "trainable_tensors": len(trained),
        "trainable_elements": sum(parameters.elements_everywhere(p) for p in trained),
        "dtypes": dtypes,
    }


def _adapter(own: dict[int, Any], names: dict[int, str]) -> dict[str, Any]:
    adapters = [p for key, p in own.items() if is_adapter(names[key])]
    return {
        "parameters": len(adapters),
        "trainable": sum(p.requires_grad for p in adapters),
        "names": sorted({_kind(names[key]) for key in own if is_adapter(names[key])})[:SHOWN],
        "elements": sum(parameters.elements_everywhere(p) for p in adapters),
        "trainable_elements": sum(parameters.elements_everywhere(p) for p in adapters if p.requires_grad),
    }


def _kind(name: str) -> str:
    """`q_proj.lora_A` of `model.layers.0.self_attn.q_proj.lora_A.default.weight`."""
    words = name.split(".")
    for place, word in enumerate(words):
        if is_adapter(f"{word}."):
            return ".".join(words[max(0, place - 1) : place + 1])
    return name


def _optimizer(own: dict[int, Any], held: dict[int, Any], names: dict[int, str], session: Session) -> dict[str, Any]:
    missing = sorted(names[key] for key, p in own.items() if p.requires_grad and key not in held)
    state: dict[str, int] = {}
    for optimizer in optimizers_of(session):
        for values in optimizer.state.values():
            for value in values.values() if isinstance(values, dict) else ():
                if hasattr(value, "dtype") and hasattr(value, "numel") and value.numel() > 1:
                    name = parameters.dtype_name(value)
                    state[name] = state.get(name, 0) + parameters.local(value).numel()
    return {
        "names": sorted(type(optimizer).__name__ for optimizer in optimizers_of(session)),
        "tensors": len(held),
        "of_model": sum(key in own for key in held),
        "not_of_model": sum(key not in own for key in held),
        "in_no_optimizer": missing[:SHOWN],
        "in_no_optimizer_count": len(missing),
        "state_dtypes": state,
    }


def _tied(roots: list[Any]) -> dict[str, bool] | None:
    """Does the configuration ask for tied embeddings, and are they the same parameter?"""
    for root in roots:
        inner = modules.beneath_adapters(modules.bare(root))
        config = plain_attribute(inner, "config")
        asked = getattr(config, "tie_word_embeddings", None)
        if asked is None or not all(hasattr(type(inner), f"get_{end}_embeddings") for end in ("input", "output")):
            continue
        into, out = inner.get_input_embeddings(), inner.get_output_embeddings()
        if into is not None and out is not None:
            weight = plain_attribute(into, "weight")
            return {"config": bool(asked), "actual": weight is not None and weight is plain_attribute(out, "weight")}
    return None


def sharding(roots: list[Any], own: dict[int, Any]) -> dict[str, Any]:
    """Strategy, bytes in all and bytes really split, units and replicas."""
    total = split = 0
    replicas = set()
    for parameter in own.values():
        size = parameters.elements_everywhere(parameter) * parameter.element_size()
        total += size
        if parameters.is_sharded(parameter) or getattr(parameter, "ds_id", None) is not None:
            split += size
        if hasattr(parameter, "placements"):
            mesh = parameter.device_mesh
            copies = 1
            for axis, placement in enumerate(parameter.placements):
                copies *= mesh.size(axis) if placement.is_replicate() else 1
            replicas.add(copies)
    wrapped = _wrappers(roots)
    replicas.update(module.__dict__[KEPT_WHOLE] for module in wrapped.get(KEPT_WHOLE, ()))
    strategy = _strategy(wrapped, split, replicas)
    fsdp1 = wrapped.get("FullyShardedDataParallel")
    if fsdp1 and _fsdp1_splits(fsdp1[0]):
        split = total
    return {
        "strategy": strategy,
        "bytes_total": total,
        "bytes_sharded": split,
        "units": len(wrapped.get("FSDPModule", ())) or len(wrapped.get("FullyShardedDataParallel", ())),
        "replicas": max(replicas) if replicas else None,
        **_policy(wrapped),
    }


def _wrappers(roots: list[Any]) -> dict[str, list[Any]]:
    """Kind → wrapped modules: DDP, FSDP1 and FSDP2 units, DeepSpeed engines; units that a switch kept whole."""
    fsdp2 = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", None)
    found: dict[str, list[Any]] = {}
    for root in roots:
        for module in root.modules():
            name = type(module).__name__
            if KEPT_WHOLE in module.__dict__:
                found.setdefault(KEPT_WHOLE, []).append(module)
            elif name in ("DistributedDataParallel", "FullyShardedDataParallel", "DeepSpeedEngine"):
                found.setdefault(name, []).append(module)
            elif fsdp2 is not None and isinstance(module, fsdp2):
                found.setdefault("FSDPModule", []).append(module)
    return found


def _strategy(wrapped: dict[str, list[Any]], split: int, replicas: set[int]) -> str:
    if "FullyShardedDataParallel" in wrapped:
        kind = plain_attribute(wrapped["FullyShardedDataParallel"][0], "sharding_strategy")
        return f"FSDP1/{getattr(kind, 'name', kind)}"
    if "FSDPModule" in wrapped:
        return "HSDP" if replicas and max(replicas) > 1 and split else "FSDP2"
    if "DeepSpeedEngine" in wrapped:
        stage = getattr(wrapped["DeepSpeedEngine"][0], "zero_optimization_stage", None)
        return f"ZeRO-{stage()}" if callable(stage) else "DeepSpeed"
    if "DistributedDataParallel" in wrapped:
        return "DDP"
    if KEPT_WHOLE in wrapped:
        return "replicated"
    return "TP" if split else "none"


def _fsdp1_splits(unit: Any) -> bool:
    kind = getattr(plain_attribute(unit, "sharding_strategy"), "name", "")
    return kind != "NO_SHARD" and plain_attribute(unit, "world_size", 1) > 1


def _policy(wrapped: dict[str, list[Any]]) -> dict[str, str | None]:
    """Parameter and reduce dtype of the sharding policy, as far as the units tell."""
    for module in wrapped.get("FSDPModule", ()):
        state = module._get_fsdp_state() if hasattr(type(module), "_get_fsdp_state") else None
        policy = getattr(state, "_mp_policy", None)
        if policy is not None:
            return {
                "param_dtype": _name(policy.param_dtype),
                "reduce_dtype": _name(policy.reduce_dtype or policy.param_dtype),
            }
    for module in wrapped.get("FullyShardedDataParallel", ()):
        policy = plain_attribute(module, "mixed_precision")
        if policy is not None:
            return {"param_dtype": _name(policy.param_dtype), "reduce_dtype": _name(policy.reduce_dtype)}
    return {}


def _name(dtype: Any) -> str | None:
    return str(dtype).rpartition(".")[2] if dtype is not None else None
