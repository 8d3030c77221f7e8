"""Parameters of a model that get gradients and are in no optimizer join the one that trains the rest of it.

They join its last group: schedulers of the learning rate count the groups.
"""

from __future__ import annotations

from trueup_instrument.appliers.binding import Binding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

FIRST, EVERY = 3, 10
"""Steps of an optimizer before which is looked for missing parameters: the first, and then every so manieth."""


def attach(switch: Switch) -> None:
    binding = Binding(switch)
    looked: dict[int, int] = {}

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        looked[id(optimizer)] = looked.get(id(optimizer), 0) + 1
        if looked[id(optimizer)] > FIRST and looked[id(optimizer)] % EVERY:
            return
        held = {id(each) for one in binding.optimizers for group in one.param_groups for each in group["params"]}
        own = {id(each) for group in optimizer.param_groups for each in group["params"]}
        for model in binding.models():
            parameters = list(model.parameters())
            if not any(id(each) in own for each in parameters):
                continue
            missing = [each for each in parameters if each.grad is not None and id(each) not in held]
            if missing:
                optimizer.param_groups[-1]["params"].extend(missing)
                switch.changed(f"{len(missing)} parameters added", type(optimizer).__name__)

    hook = switch.guarded(before)
    switch.after("torch.optim.optimizer", lambda module: module.register_optimizer_step_pre_hook(hook))
