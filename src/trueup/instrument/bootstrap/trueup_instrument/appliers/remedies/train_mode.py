"""A model that trains in eval mode is put into training mode for its training forwards.

A forward trains when gradients are recorded. Where the program itself called `eval()`, an evaluation without
`no_grad` looks the same: such a model is left as it is until it has evaluated under `no_grad`, or an optimizer stepped.
"""

from __future__ import annotations

import sys
import weakref

from trueup_instrument import places
from trueup_instrument.appliers.forwards import around_forwards
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

PASSED = ("train", "eval")
"""Methods between the program's call and `Module.train`, libraries' overrides among them."""


def attach(switch: Switch) -> None:
    modes = Modes(switch)
    around_forwards(switch, modes.before)
    switch.after("torch.nn.modules.module", lambda module: replace(module.Module, "train", modes.followed))
    step = switch.guarded(lambda optimizer, args, kwargs: modes.stepped())
    switch.after("torch.optim.optimizer", lambda module: module.register_optimizer_step_post_hook(step))


class Modes:
    """Which models the program put into eval mode, and which are in training mode by this remedy."""

    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self._meant: weakref.WeakSet[Any] = weakref.WeakSet()
        """Models whose eval() the program called, and that have evaluated nothing since."""
        self._ours: weakref.WeakSet[Any] = weakref.WeakSet()
        self._pending = False
        """A forward recorded gradients in an eval mode that was meant."""
        self._depth = 0

    def before(self, model: Any) -> None:
        """Ahead of a model's forward."""
        torch = sys.modules["torch"]
        if not torch.is_grad_enabled():
            self._meant.discard(model)
            if model in self._ours:
                self._set(model, False)
        elif model.training or not any(each.requires_grad for each in model.parameters()):
            return
        elif model in self._meant:
            self._pending = True
        else:
            self._set(model, True)
            self._switch.changed("training mode", type(model).__name__)

    def stepped(self) -> None:
        """An optimizer stepped: what ran with gradients has been trained."""
        if self._pending:
            self._pending = False
            self._meant.clear()

    def followed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`Module.train`, which `eval()` calls, too."""
        note = self._switch.guarded(self._note)

        def train(module: Any, mode: bool = True) -> Any:
            if self._depth == 0:
                note(module, mode, _program_called())
            self._depth += 1
            try:
                return original(module, mode)
            finally:
                self._depth -= 1

        return train

    def _note(self, module: Any, mode: bool, by_program: bool) -> None:
        parts = list(module.modules())
        for part in parts:
            self._ours.discard(part)
            self._meant.discard(part)
        if not mode and by_program:
            self._meant.update(parts)

    def _set(self, model: Any, mode: bool) -> None:
        self._depth += 1
        try:
            model.train(mode)
        finally:
            self._depth -= 1
        (self._ours.add if mode else self._ours.discard)(model)


def _program_called() -> bool:
    """Whether the program called `train` or `eval`, not a library that has loaded a model."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name in PASSED:
        frame = frame.f_back
    return frame is not None and places.is_user_file(frame.f_code.co_filename)
