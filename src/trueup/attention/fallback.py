"""The kernel that a Hugging Face model can run in place of one that cannot serve it: by rule, with its reason."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from trueup.attention.bench.running import device_name
from trueup.attention.bench.saved import measured_order
from trueup.attention.call import Call, Dtype, Mask, Place
from trueup.attention.entries import ENTRIES
from trueup.attention.here import PACKAGES, release
from trueup.attention.order import Choice, next_best

MISSING = "none"
OWN = ("flash_attention_2", "flash_attention_3", "flash_attention_4")
LENGTH = 2048
"""Tokens of a row where none are told: they matter to a measured order alone."""
IMPLEMENTATIONS: Mapping[str, str] = {
    "flash-attn-2": "flash_attention_2",
    "flash-attn-3": "flash_attention_3",
    "flash-attn-4": "flash_attention_4",
    "kernels-community/flash-attn2": "kernels-community/flash-attn2",
    "kernels-community/vllm-flash-attn3": "kernels-community/vllm-flash-attn3",
    "kernels-community/flash-attn4": "kernels-community/flash-attn4",
    "sdpa-flash": "sdpa",
    "sdpa-cudnn": "sdpa",
    "sdpa-mem-efficient": "sdpa",
    "sdpa-math": "sdpa",
    "sdpa-flash-cpu": "sdpa",
    "flex": "flex_attention",
    "eager": "eager",
}
"""Kernel → attn_implementation of transformers that runs it."""


@dataclass(frozen=True, slots=True)
class ForeignChoice:
    """An implementation of transformers."""

    name: str


@dataclass(frozen=True, slots=True)
class OwnChoice:
    """One that `register_attention` registers."""

    name: str


def choose(
    model: Any, implementation: str, order: Sequence[str] | None = None, length: int = LENGTH
) -> tuple[Choice, OwnChoice | ForeignChoice | None]:
    """The kernel for `model` where `implementation` is asked for, and the name by which transformers takes it.

    Raises ValueError for an implementation that is not known.
    """
    if implementation not in ENTRIES:
        raise ValueError(f"{implementation} is no attention implementation; choose from {', '.join(OWN)}, sdpa")
    call = call_of(model, implementation, length)
    order = order if order is not None else measured(call, next(model.parameters()).device.type)
    choice = next_best(call, usable=tuple(IMPLEMENTATIONS), order=order)
    if choice.actual != choice.requested and call.place.device != next(model.parameters()).device.type:
        choice = _beside_stand_in(choice, call, order)
    if choice.actual is None:
        return choice, None
    name = IMPLEMENTATIONS[choice.actual]
    return choice, OwnChoice(f"trueup_{name}") if name in OWN else ForeignChoice(name)


def _beside_stand_in(choice: Choice, call: Call, order: Sequence[str] | None) -> Choice:
    """A stand-in plays a GPU for its own kernel alone: all others run on the CPU, and are chosen for it."""
    on_cpu = replace(call, place=Place(versions=call.place.versions))
    usable = tuple(name for name in IMPLEMENTATIONS if name != choice.requested)
    found = next_best(on_cpu, usable=usable, order=order, requested=choice.requested)
    lacks = choice.reason.rpartition("; ")[0]
    return replace(found, reason=f"{lacks}; {found.actual or 'no kernel'} is the next in the order")


def measured(call: Call, device: str) -> tuple[str, ...] | None:
    """The order that `trueup attention bench --save` has kept for such calls on this device."""
    import torch

    name = device_name(torch, device)
    return measured_order(replace(call, entry="sdpa"), name)


def call_of(model: Any, implementation: str, length: int = LENGTH) -> Call:
    """A training call of the attention of a Hugging Face model, on the device and in the dtype that it has now."""
    import torch

    config = model.config.get_text_config()
    heads = config.num_attention_heads
    key_heads = getattr(config, "num_key_value_heads", None) or heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    tensor = next(model.parameters())
    kind = tensor.device.type
    autocast = torch.is_autocast_enabled(kind)
    dtype = torch.get_autocast_dtype(kind) if autocast else tensor.dtype
    return Call(
        query=(1, heads, length, size),
        key=(1, key_heads, length, size),
        value=(1, key_heads, length, size),
        dtype=_named(str(dtype)),
        mask=Mask(kind="causal"),
        dropout=float(getattr(config, "attention_dropout", 0.0) or 0.0) if model.training else 0.0,
        softcap=bool(getattr(config, "attn_logit_softcapping", None)),
        requires_grad=model.training,
        entry=implementation,
        place=place(kind),
    )


def place(device: str) -> Place:
    """Where a model on `device` runs. A stand-in for an extension of GPUs is what it stands for."""
    import torch

    versions = {name: release(found) for name in PACKAGES if (found := _installed(name))}
    versions["torch"] = release(torch.__version__)
    standing = getattr(sys.modules.get("flash_attn_2_cuda"), "stand_in_for", None)
    if standing is not None:
        capability = release(os.environ.get("TRUEUP_STANDIN_CAPABILITY", "8.0"))
        return Place(device="cuda", capability=capability, versions=versions)
    if device != "cuda":
        return Place(versions=versions)
    if torch.version.cuda:
        versions["cuda"] = release(torch.version.cuda)
    return Place(device="cuda", capability=torch.cuda.get_device_capability(), versions=versions)


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _named(dtype: str) -> Dtype:
    names: dict[str, Dtype] = {
        "torch.float64": "fp64", "torch.float32": "fp32", "torch.float16": "fp16", "torch.bfloat16": "bf16"
    }  # fmt: skip
    return names.get(dtype, "fp8")
