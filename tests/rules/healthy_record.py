"""A rich job in which everything that was asked for happened, with the noise that healthy jobs make.

LoRA on a 12-block Llama, checkpointed, compiled per block, FSDP2 on two gloo ranks, bf16 autocast, accumulation of 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from trueup.schema.record import Record

FORWARD = "forward_with_checkpointing (transformers/modeling_layers.py:89)"


def event(layer: str, name: str, module: str | None = None, at: str = "train.py:40", **detail: Any) -> dict[str, Any]:
    return {"layer": layer, "event": name, "module": module, "at": at, "detail": detail}


def recompile(reason: str, count: int = 1, function: str = FORWARD, **rest: Any) -> dict[str, Any]:
    return {"reason": reason, "at": "train.py:61", "count": count, "function": function, **rest}


def graph_break(reason: str, count: int = 1, **rest: Any) -> dict[str, Any]:
    return {"reason": reason, "count": count, "at": "model.py:12", **rest}


def kernel(name: str, calls: int = 12, share: float = 1.0) -> dict[str, Any]:
    return {"name": name, "calls": calls, "share": share, "op": name}


def failed(error: str, rank: int = 0, **rest: Any) -> dict[str, Any]:
    """A rank that died of `error`."""
    return {"rank": rank, "local_rank": rank, "world_size": 2, "error": error, "exit": {"code": 1}, **rest}


HEALTHY: dict[str, Any] = {
    "command": ["torchrun", "--nproc-per-node", "2", "train.py"],
    "duration_s": 600.0,
    "exit": {"code": 0},
    "environment": {
        "python": "3.11.7",
        "packages": {
            "torch": "2.13.0+cpu",
            "transformers": "5.24.0",
            "accelerate": "1.15.0",
            "peft": "0.21.0",
        },
        "devices": [],
        "variables": {"OMP_NUM_THREADS": "1"},
    },
    "launch": {"requested_world_size": 2, "world_size": 2, "launchers": ["torchrun"], "source": "--nproc-per-node"},
    "ranks": [
        {"rank": rank, "local_rank": rank, "world_size": 2, "trained": True, "steps": 40, "process_group": "gloo"}
        for rank in (0, 1)
    ],
    "order": [
        event("launcher", "init_process_group", backend="gloo", world_size=2),
        event("attention", "config", "LlamaForCausalLM", use_cache=False, output_attentions=False),
        event("adapter", "get_peft_model", "LlamaForCausalLM", peft_type="LORA", r=8),
        event("checkpointing", "gradient_checkpointing_enable", "LlamaForCausalLM", use_reentrant=False),
        event("compile", "Module.compile", "LlamaDecoderLayer", target="module", builtin=False, whole_model=False),
        event("sharding", "fully_shard", "LlamaDecoderLayer", reshard_after_forward=True),
        event("trainer", "Optimizer", "AdamW", tensors=96, lr=1e-3),
        event("trainer", "load_state_dict", "LlamaForCausalLM", missing=0, unexpected=0, missing_names=[]),
        event("precision", "autocast", device="cpu", dtype="bfloat16", enabled=True),
    ],
    "requested": {
        "compile": {"module": "LlamaDecoderLayer", "backend": "inductor"},
        "attention": {"implementation": "sdpa"},
        "sharding": {"strategy": "FSDP2"},
        "checkpointing": {"enabled": True, "reentrant": False},
        "precision": {"dtype": "bf16"},
        "adapter": {"type": "LORA"},
        "launcher": {"processes": 2},
    },
    "actual": {
        "compile": {
            "fraction": 0.98,
            "blocks": {"total": 12, "compiled": 12, "names": ["LlamaDecoderLayer"]},
            "graphs": 3,
            "frames": 3,
            "holders": 12,
            "seconds": 21.0,
            "checkpoints_in_graph": 3,
            "root_eager": True,
            "eager_modules": {"Embedding": 1, "Linear": 1},
            "entries": ["LlamaDecoderLayer"],
            # The second block has an input that requires a gradient; the second length makes the shape dynamic.
            "recompiles": [
                recompile("0/0: tensor 'hidden_states' requires_grad mismatch. expected requires_grad=0", step=1),
                recompile("0/1: tensor 'hidden_states' size mismatch at index 1. expected 64, actual 96", step=2),
            ],
            # torch's optimizers and its DDP wrapper break at known places; FSDP2's hooks are disabled on purpose.
            "breaks": [
                graph_break("Call to `torch._dynamo.graph_break()`", frame="lib/torch/optim/optimizer.py:79"),
                graph_break("Skip calling `torch.compiler.disable()`d function", count=24),
            ],
        },
        "attention": {
            "requested": "sdpa",
            "kernels": [kernel("sdpa-flash-cpu", 24)],
            "fused_fraction": 1.0,
            "masks": {"none": 24},
            "toggles": {"flash": True, "mem_efficient": True, "math": True, "cudnn": True},
            "packed": False,
            "boundaries": False,
        },
        "sharding": {
            "strategy": "FSDP2",
            "fraction": 1.0,
            "units": 13,
            "collectives": {"all_gather": 26, "reduce_scatter": 13},
            "reducing_backwards": 1,
        },
        "checkpointing": {
            "fraction": 1.0,
            "reentrant": False,
            "calls": 24,
            "random_ops": 24,
            "random_again": 12,
            "without_rng_state": 0,
        },
        "precision": {
            "matmul": {"bfloat16": 0.97, "float32": 0.03},
            "parameters": {"float32": 1.0},
            "gradients": {"float32": 1.0},
            "optimizer_state": {"float32": 1.0},
            "reduce_dtype": "float32",
            "unchanged_share": 0.001,
        },
        # lora_A has a gradient of zero in the first step, because lora_B starts at zero: half of them change.
        "adapter": {
            "trainable_fraction": 0.01,
            "names": ["q_proj.lora_A", "q_proj.lora_B"],
            "adapter_parameters": 96,
            "adapter_trainable": 96,
            "adapter_changed": 48,
        },
        "memory": {"peak_bytes": 700_000_000, "source": "resident set"},
        "training": {
            "parameters": 211,
            "trainable": 96,
            "optimizers": ["AdamW"],
            "accumulation": 2,
            "observed": True,
            "models": ["PeftModelForCausalLM"],
            "training_mode": True,
            "tied_requested": True,
            "tied": True,
        },
    },
    "steps": {"count": 40, "losses": [6.2, 6.0], "seconds": [9.0, 0.4]},
}


def record(change: Mapping[str, Any]) -> Record:
    """The healthy record with `change` laid over it: mappings merge, all else is replaced; `order+` appends events."""
    return msgspec.convert(merged(HEALTHY, change), Record, strict=True)


def merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """`change` laid over `base`."""
    result = dict(base)
    for key, value in change.items():
        name = key.removesuffix("+")
        if name != key:
            result[name] = [*base[name], *value]
        elif isinstance(value, Mapping) and isinstance(base.get(name), Mapping) and key not in WHOLE:
            result[name] = merged(base[name], value)
        else:
            result[name] = value
    return result


WHOLE = {
    "masks",
    "toggles",
    "matmul",
    "parameters",
    "gradients",
    "collectives",
    "eager_modules",
    "sdpa_calls",
    "unmasked_padded",
}
"""Mappings that are values of their own: a change replaces them."""
