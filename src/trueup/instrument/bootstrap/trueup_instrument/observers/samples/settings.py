"""Contexts entered in the sampled step, and settings in force: autocast, Dynamo's limits."""

from __future__ import annotations

import sys

from trueup_instrument import places
from trueup_instrument.frames import innermost_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any

    from trueup_instrument.frames import Listener
    from trueup_instrument.sampling import Sample

NAME = "settings"

WATCHED_CONFIG = (
    "suppress_errors",
    "recompile_limit",
    "cache_size_limit",
    "accumulated_recompile_limit",
    "automatic_dynamic_shapes",
    "assume_static_by_default",
    "capture_scalar_outputs",
    "capture_dynamic_output_shape_ops",
    "optimize_ddp",
    "allow_unspec_int_on_nn_module",
    "fail_on_recompile_limit_hit",
    "disable",
    "compiled_autograd",
)
"""Settings of torch._dynamo.config that decide what is compiled."""


class Window:
    def __init__(self, sample: Sample) -> None:
        self.session = sample.session
        self.autocast: dict[tuple[str, str, bool, bool], str | None] = {}

    def listeners(self) -> dict[CodeType, Listener]:
        kind = getattr(sys.modules.get("torch.amp.autocast_mode"), "autocast", None)
        code = innermost_code(getattr(kind, "__enter__", None))
        return {code: self._entered} if code is not None else {}

    def _entered(self, frame: FrameType) -> None:
        context = frame.f_locals.get("self")
        key = (
            str(getattr(context, "device", None)),
            str(getattr(context, "fast_dtype", None)).rpartition(".")[2],
            bool(getattr(context, "_enabled", False)),
            bool(getattr(context, "_cache_enabled", False)),
        )
        if key not in self.autocast:
            self.autocast[key] = places.user_line(frame.f_back)

    def fields(self) -> dict[str, Any]:
        told = self.session.__dict__.setdefault("settings_told", set())
        for key, at in self.autocast.items():
            if key not in told:
                told.add(key)
                device, dtype, enabled, cache_enabled = key
                self.session.layer(
                    "precision",
                    "autocast",
                    at=at,
                    device=device,
                    dtype=dtype,
                    enabled=enabled,
                    cache_enabled=cache_enabled,
                )
                if enabled:
                    self.session.request("precision", "dtype", dtype, at=at, source="autocast")
        changed = changed_config()
        if changed and "dynamo.config" not in told:
            told.add("dynamo.config")
            self.session.layer("compile", "dynamo.config", **changed)
        budget = partitioner_budget()
        if budget is not None and "functorch.config" not in told:
            told.add("functorch.config")
            self.session.layer("checkpointing", "functorch.config", activation_memory_budget=budget)
        return {"autocast": [list(key) for key in self.autocast]}


def partitioner_budget() -> float | None:
    """torch._functorch.config.activation_memory_budget, where it asks for less than everything."""
    budget = getattr(sys.modules.get("torch._functorch.config"), "activation_memory_budget", None)
    return float(budget) if isinstance(budget, (int, float)) and budget < 1 else None


def changed_config() -> dict[str, Any]:
    """Watched settings of Dynamo that differ from the installed version's defaults: name → value."""
    config = sys.modules.get("torch._dynamo.config")
    entries = getattr(config, "_config", None)
    if not isinstance(entries, dict):
        return {}
    found = {}
    for name in WATCHED_CONFIG:
        entry = entries.get(name)
        if entry is None or getattr(entry, "alias", None):
            continue
        value = getattr(config, name, None)
        if value != getattr(entry, "default", value):
            found[name] = value
    return found
