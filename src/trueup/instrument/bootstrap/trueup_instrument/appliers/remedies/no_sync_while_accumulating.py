"""Gradients are reduced in the last backward pass of an optimizer step only, for DDP and FSDP2.

How many passes a step takes is seen in the first steps. Where one turns out shorter, at the end of an epoch, the
gradients are reduced before they are clipped, unscaled or used.
"""

from __future__ import annotations

import sys
import weakref

from trueup_instrument.appliers.replacing import replace
from trueup_instrument.appliers.synchronising import Replicated, Sharded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

    Model = Replicated | Sharded

ALIKE = 2
"""Steps of one length in a row after which the next is taken to have it, too."""
CLIPPING = ("clip_grad_norm_", "clip_grad_value_", "get_total_norm")
FSDP_STATE = "torch.distributed.fsdp._fully_shard._fsdp_state"
NEEDED = ("_root_pre_forward", "_root_post_backward_final_callback")


def attach(switch: Switch) -> None:
    rhythms: weakref.WeakKeyDictionary[Any, Rhythm] = weakref.WeakKeyDictionary()

    def forward(model: Model) -> None:
        rhythm = rhythms.get(model.model)
        if rhythm is None:
            rhythm = rhythms[model.model] = Rhythm(switch, model)
        rhythm.forward()

    def before_step(optimizer: Any) -> None:
        given = {id(each) for group in optimizer.param_groups for each in group["params"]}
        for rhythm in list(rhythms.values()):
            if rhythm.is_trained_by(given):
                rhythm.step()

    def finish() -> None:
        for rhythm in list(rhythms.values()):
            rhythm.finish()

    forward_guarded, step = switch.guarded(forward), switch.guarded(lambda optimizer, *_: before_step(optimizer))
    switch.after("torch.nn.parallel.distributed", lambda module: _replicated(module, forward_guarded))
    switch.after(FSDP_STATE, lambda module: _sharded(switch, module, forward_guarded))
    switch.after("torch.optim.optimizer", lambda module: module.register_optimizer_step_pre_hook(step))
    for name in CLIPPING:
        switch.after("torch.nn.utils.clip_grad", lambda module, name=name: _before(module, name, finish))  # type: ignore[misc]
    for name in ("unscale_", "step"):
        switch.after("torch.amp.grad_scaler", lambda module, name=name: _before(module.GradScaler, name, finish))  # type: ignore[misc]


class Rhythm:
    """How many forward passes a model makes for each optimizer step, and which of them are to reduce."""

    def __init__(self, switch: Switch, model: Model) -> None:
        self._switch = switch
        self._model = model
        self._lengths: list[int] = []
        self._forwards = 0
        self._own = True
        """The program leaves reductions to the library; False once it was seen to leave some out itself."""
        self._left_out = False
        """The gradients hold something that no backward pass has reduced."""
        self._parameters: frozenset[int] = frozenset()

    def forward(self) -> None:
        """Before a forward pass that records gradients."""
        self._forwards += 1
        if not self._left_out and not self._model.reduces:
            self._own = False
        length = self._lengths[-1] if len(self._lengths) == ALIKE and len(set(self._lengths)) == 1 else 1
        if not self._own or length < 2:
            return
        last = self._forwards % length == 0
        self._model.set(last)
        self._left_out = not last
        self._switch.changed(f"gradients reduced in 1 of {length} passes", type(self._model.model).__name__)

    def is_trained_by(self, given: set[int]) -> bool:
        if not self._parameters:
            self._parameters = frozenset(id(each) for each in self._model.model.parameters())
        return not self._parameters.isdisjoint(given)

    def step(self) -> None:
        """Before an optimizer steps; another that steps right after it counts for nothing."""
        self.finish()
        if self._forwards:
            self._lengths = [*self._lengths, self._forwards][-ALIKE:]
            self._forwards = 0

    def finish(self) -> None:
        """Reduce what was left out."""
        if self._left_out:
            self._left_out = False
            self._model.set(True)
            self._model.finish()
            self._switch.changed("gradients of a shorter step reduced", type(self._model.model).__name__)


def _replicated(module: ModuleType, forward: Callable[[Model], object]) -> None:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def ddp_forward(self: Any, *args: Any, **kwargs: Any) -> Any:
            torch = sys.modules["torch"]
            if not torch.compiler.is_compiling() and torch.is_grad_enabled() and self.training:
                forward(Replicated(self))
            return original(self, *args, **kwargs)

        return ddp_forward

    replace(module.DistributedDataParallel, "forward", make)


def _sharded(switch: Switch, module: Any, forward: Callable[[Model], object]) -> None:
    if any(not hasattr(module.FSDPState, name) for name in NEEDED):
        switch.cannot("this release of FSDP2 begins and ends a pass in another way")
        return

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def root_pre_forward(self: Any, *args: Any, **kwargs: Any) -> Any:
            inside = self._state_ctx.iter_forward_root is not None
            result = original(self, *args, **kwargs)
            if not inside and self._is_root and sys.modules["torch"].is_grad_enabled():
                forward(Sharded(self))
            return result

        return root_pre_forward

    replace(module.FSDPState, "_root_pre_forward", make)


def _before(owner: Any, name: str, finish: Callable[[], object]) -> None:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            finish()
            return original(*args, **kwargs)

        return call

    replace(owner, name, make)
