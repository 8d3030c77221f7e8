"""`adapter=off:layers.0.q_proj`: the adapters of these modules pass their input to the base layer, which is trained."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("peft.tuners.tuners_utils", lambda module: _tuners(switch, module))


def _tuners(switch: Switch, module: ModuleType) -> None:
    layer: Any = module.__dict__["BaseTunerLayer"]
    passing = frozenset(switch.parts or ())

    @switch.guarded
    def switch_off(model: Any) -> None:
        adapted = {name: part for name, part in model.named_modules() if isinstance(part, layer)}
        switch.has_parts(list(adapted))
        for name, part in adapted.items():
            if name in passing:
                part._disable_adapters = True
                for parameter in part.get_base_layer().parameters():
                    if parameter.is_floating_point():
                        parameter.requires_grad_(True)
                switch.changed("adapter passes through", name)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def inject_adapter(self: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, model, *args, **kwargs)
            switch_off(model)
            return result

        return inject_adapter

    replace(module.__dict__["BaseTuner"], "inject_adapter", make)
