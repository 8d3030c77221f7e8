"""A model whose blocks are to be checkpointed is in training mode wherever gradients are computed."""

from __future__ import annotations

from trueup_instrument.appliers.binding import Binding
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    binding = Binding(switch)
    switch.after("torch.optim.optimizer", lambda module: _optimizers(switch, binding, module))


def _optimizers(switch: Switch, binding: Binding, module: Any) -> None:
    """The models of an optimizer are those that train."""
    follow = switch.guarded(lambda optimizer: _follow(switch, binding, optimizer))

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            follow(self)

        return __init__

    replace(module.Optimizer, "__init__", make)


def _follow(switch: Switch, binding: Binding, optimizer: Any) -> None:
    import torch

    def train(model: Any, args: Any) -> None:
        if not torch.compiler.is_compiling() and torch.is_grad_enabled() and not model.training:
            model.train()
            switch.changed("train()", type(model).__name__)

    given = {id(each) for group in optimizer.param_groups for each in group["params"]}
    for model in binding.models():
        checkpoints = any(getattr(module, "gradient_checkpointing", False) for module in model.modules())
        if checkpoints and any(id(each) in given for each in model.parameters()):
            model.register_forward_pre_hook(switch.guarded(train))
