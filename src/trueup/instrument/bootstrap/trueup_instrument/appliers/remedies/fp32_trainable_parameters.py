"""What an optimizer is given to train is float32: a GradScaler unscales no float16 gradients."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("torch.optim.optimizer", lambda module: _optimizers(switch, module))


def _optimizers(switch: Switch, module: Any) -> None:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def add(self: Any, param_group: dict[str, Any]) -> Any:
            result = original(self, param_group)
            cast(self)
            return result

        return add

    cast = switch.guarded(lambda optimizer: _cast(switch, optimizer))
    replace(module.Optimizer, "add_param_group", make)


def _cast(switch: Switch, optimizer: Any) -> None:
    """In place: module, optimizer and program keep the same parameter."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.requires_grad and str(parameter.dtype) == "torch.float16":
                parameter.data = parameter.data.float()
                switch.changed("trainable parameters in float32, were float16", type(optimizer).__name__)
