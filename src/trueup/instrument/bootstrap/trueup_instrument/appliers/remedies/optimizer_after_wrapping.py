"""An optimizer trains the parameters that its model has now, where wrapping replaced those it was given."""

from __future__ import annotations

from trueup_instrument.appliers.binding import Binding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    binding = Binding(switch)

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        changed = binding.rebind(optimizer)
        if changed:
            switch.changed(f"{changed} parameters bound anew", type(optimizer).__name__)

    hook = switch.guarded(before)
    switch.after("torch.optim.optimizer", lambda module: module.register_optimizer_step_pre_hook(hook))
