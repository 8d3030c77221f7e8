"""Whether a model is cast to a low dtype before or after PEFT takes it, which makes adapters in float32 of its own."""

from __future__ import annotations

from trueup_instrument import modules
from trueup_instrument.appliers.order import parts
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

CASTS = ("to", "half", "bfloat16")


def attach(switch: Switch) -> None:
    if switch.name == "precision before adapter":
        switch.after("torch.nn.modules.module", lambda module: _high(switch, module.Module))
    else:
        switch.after(parts.PEFT, lambda module: _low(switch, module))


def _high(switch: Switch, kind: Any) -> None:
    """Adapters that were in float32 are so again after a cast of the model around them."""
    float32, restore = switch.guarded(_adapters_in_float32), switch.guarded(lambda kept: _restore(switch, kept))

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def cast(self: Any, *args: Any, **kwargs: Any) -> Any:
            kept = float32(self)
            result = original(self, *args, **kwargs)
            if kept:
                restore(kept)
            return result

        return cast

    for name in CASTS:
        replace(kind, name, make)


def _adapters_in_float32(model: Any) -> list[Any]:
    import torch

    if not parts.has_adapter(model):
        return []
    return [each for each in _adapter_parameters(model) if each.dtype == torch.float32]


def _adapter_parameters(model: Any) -> list[Any]:
    found: dict[int, Any] = {}
    for part in model.modules():
        if parts.is_a(part, parts.TUNERS, "BaseTunerLayer"):
            for name in part.adapter_layer_names:
                layers = getattr(part, name, None)
                found.update((id(each), each) for each in getattr(layers, "parameters", list)())
    return list(found.values())


def _restore(switch: Switch, kept: list[Any]) -> None:
    import torch

    lowered = [each for each in kept if each.dtype in (torch.float16, torch.bfloat16)]
    for parameter in lowered:
        parameter.data = parameter.data.float()
    if lowered:
        switch.changed(f"{len(lowered)} adapter parameters stay in float32 when the model is cast", None)


def _low(switch: Switch, module: ModuleType) -> None:
    """Adapters are made in the dtype of the model, as if it had been cast after they came."""

    def lower(model: Any) -> None:
        import torch

        adapters = _adapter_parameters(model)
        known = {id(each) for each in adapters}
        low = [each.dtype for each in model.parameters() if id(each) not in known]
        dtype = next((each for each in low if each in (torch.float16, torch.bfloat16)), None)
        high = [each for each in adapters if each.dtype == torch.float32]
        if dtype is None or not high:
            return
        for parameter in high:
            parameter.data = parameter.data.to(dtype)
        switch.changed(f"{len(high)} adapter parameters cast with the model", modules.class_name(model))

    lower = switch.guarded(lower)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            lower(self)

        return __init__

    replace(module.PeftModel, "__init__", make)
