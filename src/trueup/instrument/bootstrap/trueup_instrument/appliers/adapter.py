"""`adapter=off`: PEFT's layers are taken out again, and the base model is trained in their place.

`PeftModel` and its configurations stay, as they are around a model whose layers were unloaded. What could be trained
before the adapter was added can be trained again; where nothing could, everything of a floating dtype is. Programs
freeze parameters by name afterwards, and give the optimizer those of the adapter: when it is made, what was to be
trained is thawed once more, and an optimizer that is left with nothing gets that.

Quantized weights cannot be trained without an adapter: that they are quantized while they are loaded is left out with
it. Weights that were saved quantized stay as they are.
"""

from __future__ import annotations

import weakref

from trueup_instrument import modules
from trueup_instrument.appliers.replacing import change_arguments, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

CHANGES_BASE = ("pissa", "corda", "olora", "mica", "loftq", "lora_ga")
"""Initializations of LoRA that take their part out of the base weights, which would then be missing."""


def attach(switch: Switch) -> None:
    trained = Trained()
    switch.after("peft.utils.other", lambda module: _auxiliary(switch, trained, module))
    switch.after("peft.tuners.tuners_utils", lambda module: _tuners(switch, trained, module))
    switch.after("torch.optim.optimizer", lambda module: _optimizers(switch, trained, module.Optimizer))
    switch.after("peft.peft_model", lambda module: _prompts(switch, module))
    unquantized: weakref.WeakSet[Any] = weakref.WeakSet()
    switch.after("transformers.modeling_utils", lambda module: _loading(switch, unquantized, module.PreTrainedModel))
    switch.after("peft.utils.other", lambda module: _preparing(unquantized, module))


class Trained:
    """The parameters that are trained in the place of adapters."""

    def __init__(self) -> None:
        self._references: list[weakref.ref[Any]] = []

    def add(self, parameter: Any) -> None:
        """This one, too."""
        if not any(reference() is parameter for reference in self._references):
            self._references.append(weakref.ref(parameter))

    def thawed(self) -> list[Any]:
        """All that are still there, each ready to be trained."""
        found = [parameter for reference in self._references if (parameter := reference()) is not None]
        return [parameter.requires_grad_() for parameter in found]


def _auxiliary(switch: Switch, trained: Trained, module: ModuleType) -> None:
    """`modules_to_save` and trainable tokens: copies that would be trained in the place of the original."""
    wrapper = getattr(module, "AuxiliaryTrainingWrapper", None) or module.ModulesToSaveWrapper
    take_out = switch.guarded(lambda model: _take_out(model, wrapper, lambda child: child.original_module))

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        add = _keeping(switch, trained, original)

        def set_additional_trainable_modules(*args: Any, **kwargs: Any) -> Any:
            result = add(*args, **kwargs)
            take_out(_model_of(args, kwargs))
            return result

        return set_additional_trainable_modules

    replace(module, "set_additional_trainable_modules", make)


def _tuners(switch: Switch, trained: Trained, module: ModuleType) -> None:
    layer = module.BaseTunerLayer
    layer.disable_adapters = property(lambda self: True)
    take_out = switch.guarded(lambda model: _take_out(model, layer, lambda child: child.get_base_layer()))

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        inject = _plain(switch, _keeping(switch, trained, original))

        def inject_adapter(self: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
            result = inject(self, model, *args, **kwargs)
            take_out(model)
            return result

        return inject_adapter

    replace(module.BaseTuner, "inject_adapter", make)


def _take_out(model: Any, wrapper: Any, inner: Callable[[Any], Any]) -> None:
    """Put back what wrappers of this kind hold. A tuner that holds nothing passes its input through."""
    for parent in [each for each in model.modules() if not isinstance(each, wrapper)]:
        for name, child in list(parent.named_children()):
            if isinstance(child, wrapper) and (hasattr(child, "base_layer") or hasattr(child, "original_module")):
                held = inner(child)
                held.train(child.training)
                setattr(parent, name, held)


def _optimizers(switch: Switch, trained: Trained, kind: Any) -> None:
    def change(arguments: dict[str, Any]) -> None:
        thawed = trained.thawed()
        if not thawed:
            return
        given = list(arguments["params"])
        arguments["params"] = given
        if not any(group["params"] if isinstance(group, dict) else True for group in given):
            arguments["params"] = thawed
            switch.changed("the base model in the place of the adapter's parameters", type(arguments["self"]).__name__)

    change_arguments(switch, kind, "__init__", change)


def _model_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The model of a call of `inject_adapter(self, model, ...)` or `set_additional_trainable_modules(model, ...)`."""
    named = kwargs.get("model")
    return named if named is not None else args[1] if len(args) > 1 and hasattr(args[1], "parameters") else args[0]


def _keeping(switch: Switch, trained: Trained, original: Callable[..., Any]) -> Callable[..., Any]:
    """`original`, after which the base model is trained as before and whatever was added is not."""
    restore = switch.guarded(lambda model, flags: _restore(switch, trained, model, flags))

    def call(*args: Any, **kwargs: Any) -> Any:
        if any(getattr(value, "is_prompt_learning", False) for value in (*args, *kwargs.values())):
            return original(*args, **kwargs)
        model = _model_of(args, kwargs)
        flags = {id(parameter): parameter.requires_grad for parameter in model.parameters()}
        result = original(*args, **kwargs)
        restore(model, flags)
        return result

    return call


def _restore(switch: Switch, trained: Trained, model: Any, flags: dict[int, bool]) -> None:
    if not any(flags.values()):
        flags = dict.fromkeys(flags, True)
    for parameter in model.parameters():
        can_be = parameter.is_floating_point() or parameter.is_complex()
        wanted = flags.get(id(parameter), False)
        if wanted and not can_be:
            switch.cannot("quantized parameters of the base model are not trained", modules.class_name(model))
        parameter.requires_grad_(wanted and can_be)
        if wanted and can_be:
            trained.add(parameter)
    switch.changed("adapters taken out, the base model is trained", modules.class_name(model))


def _plain(switch: Switch, original: Callable[..., Any]) -> Callable[..., Any]:
    """`original` under a configuration that leaves the base weights as they are."""

    def inject_adapter(self: Any, model: Any, adapter_name: str, *args: Any, **kwargs: Any) -> Any:
        config = self.peft_config[adapter_name]
        wanted = getattr(config, "init_lora_weights", None)
        if not isinstance(wanted, str) or not wanted.lower().startswith(CHANGES_BASE):
            return original(self, model, adapter_name, *args, **kwargs)
        switch.changed(f"init_lora_weights={wanted} left out", modules.class_name(model))
        config.init_lora_weights = True
        try:
            return original(self, model, adapter_name, *args, **kwargs)
        finally:
            config.init_lora_weights = wanted

    return inject_adapter


QUANTIZED = ("quantization_config", "load_in_8bit", "load_in_4bit")
"""Arguments of `from_pretrained`."""


def _loading(switch: Switch, unquantized: weakref.WeakSet[Any], kind: Any) -> None:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def from_pretrained(cls: Any, *args: Any, **kwargs: Any) -> Any:
            asked = [name for name in QUANTIZED if kwargs.get(name)]
            for name in asked:
                kwargs.pop(name)
            model = original(cls, *args, **kwargs)
            if asked:
                unquantized.add(model[0] if isinstance(model, tuple) else model)
                switch.changed("quantization left out, quantized weights cannot be trained", cls.__name__)
            return model

        return from_pretrained

    replace(kind, "from_pretrained", make)


def _preparing(unquantized: weakref.WeakSet[Any], module: ModuleType) -> None:
    """What else PEFT sets up for a quantized model, gradient checkpointing above all, stays."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def prepare_model_for_kbit_training(model: Any, *args: Any, **kwargs: Any) -> Any:
            if model not in unquantized:
                return original(model, *args, **kwargs)
            model.is_loaded_in_8bit = True
            try:
                return original(model, *args, **kwargs)
            finally:
                del model.is_loaded_in_8bit

        return prepare_model_for_kbit_training

    replace(module, "prepare_model_for_kbit_training", make)


def _prompts(switch: Switch, module: ModuleType) -> None:
    def look(arguments: dict[str, Any]) -> None:
        if getattr(arguments["peft_config"], "is_prompt_learning", False):
            switch.cannot("prompts that are learned are part of the input", modules.class_name(arguments["model"]))

    change_arguments(switch, module.PeftModel, "__init__", look)
