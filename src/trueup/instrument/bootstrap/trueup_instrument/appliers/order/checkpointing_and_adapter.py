"""Whether a Hugging Face model checkpoints its blocks already when PEFT takes it, which then prepares it for that.

PEFT makes the embeddings of such a model require gradients, for checkpoints of the reentrant kind. Newer transformers
do so themselves, whichever comes first: a second time would only leave a hook that the program cannot take off.
"""

from __future__ import annotations

import weakref

from trueup_instrument import modules
from trueup_instrument.appliers.order import parts
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

PREPARE = "_prepare_model_for_gradient_checkpointing"
PREPARED = "transformers prepares the model itself when its checkpoints are switched on, whichever comes first"
ENABLE = ("gradient_checkpointing_enable", "activation_checkpointing_enable")


def attach(switch: Switch) -> None:
    if switch.name == "adapter before checkpointing":
        switch.after(parts.PEFT, lambda module: _unprepared(switch, module))
    else:
        prepared = Prepared(switch)
        switch.after(parts.PEFT, prepared.of_peft)
        switch.after("transformers.modeling_utils", prepared.of_models)


def _unprepared(switch: Switch, module: ModuleType) -> None:
    """The model is taken as if it did not checkpoint yet."""

    is_prepared = switch.guarded(_is_prepared)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def prepare(self: Any, model: Any) -> Any:
            if not getattr(model, "is_gradient_checkpointing", False):
                return original(self, model)
            if is_prepared(model):
                switch.cannot(PREPARED, modules.class_name(model))
                return original(self, model)
            switch.changed("not prepared for checkpoints when the adapter came", modules.class_name(model))
            return model

        return prepare

    if not replace(module.PeftModel, PREPARE, make):
        switch.cannot("this PEFT prepares models for checkpoints by other means")


class Prepared:
    """Models whose checkpoints are switched on when they have an adapter are prepared as PEFT would have done."""

    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self._early: weakref.WeakSet[Any] = weakref.WeakSet()
        """PeftModels whose model did not checkpoint when they were made."""

    def of_peft(self, module: ModuleType) -> None:
        if not hasattr(module.PeftModel, PREPARE):
            self._switch.cannot("this PEFT prepares models for checkpoints by other means")
            return
        keep = self._switch.guarded(self._keep)

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def __init__(self: Any, model: Any, *args: Any, **kwargs: Any) -> None:
                checkpoints = getattr(model, "is_gradient_checkpointing", True)
                original(self, model, *args, **kwargs)
                keep(self, checkpoints)

            return __init__

        replace(module.PeftModel, "__init__", make)

    def _keep(self, model: Any, checkpoints: bool) -> None:
        if not checkpoints:
            self._early.add(model)

    def of_models(self, module: ModuleType) -> None:
        enabled = self._switch.guarded(self._enabled)

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def enable(self: Any, *args: Any, **kwargs: Any) -> Any:
                result = original(self, *args, **kwargs)
                enabled(self)
                return result

            return enable

        for name in ENABLE:
            replace(module.PreTrainedModel, name, make)

    def _enabled(self, model: Any) -> None:
        for wrapper in list(self._early):
            if wrapper.get_base_model() is model:
                self._early.discard(wrapper)
                if _is_prepared(model):
                    self._switch.cannot(PREPARED, modules.class_name(model))
                    return
                getattr(wrapper, PREPARE)(model)
                self._switch.changed("prepared for checkpoints as if the adapter came later", modules.class_name(model))


def _is_prepared(model: Any) -> bool:
    """Whether the output of the embeddings is made to require gradients already."""
    return bool(getattr(model, "_require_grads_hooks", None))
