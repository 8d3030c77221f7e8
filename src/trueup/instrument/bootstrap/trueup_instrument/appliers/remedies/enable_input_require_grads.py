"""The embeddings of a Hugging Face model that checkpoints its blocks require gradients, though the base is frozen."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("transformers.modeling_utils", lambda module: _checkpointing(switch, module.PreTrainedModel))
    switch.after("peft.peft_model", lambda module: _adapters(switch, module.PeftModel))


def _checkpointing(switch: Switch, kind: Any) -> None:
    """Checkpointing may be switched on after the base was frozen, and the hook on the embeddings taken off again."""
    enable = switch.guarded(lambda model: _enable(switch, model))

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def then_enable(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            enable(self)
            return result

        return then_enable

    replace(kind, "disable_input_require_grads", make)
    if not replace(kind, "gradient_checkpointing_enable", make):
        switch.cannot("this transformers checkpoints by other means")


def _adapters(switch: Switch, kind: Any) -> None:
    """The base may be frozen by its adapter after checkpointing was switched on."""
    enable = switch.guarded(lambda model: _enable(switch, model.get_base_model()))

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            enable(self)

        return __init__

    replace(kind, "__init__", make)


def _enable(switch: Switch, model: Any) -> None:
    embeddings = model.get_input_embeddings() if getattr(model, "is_gradient_checkpointing", False) else None
    if embeddings is None or any(each.requires_grad for each in embeddings.parameters()):
        return
    if not embeddings._forward_hooks:
        model.enable_input_require_grads()
        switch.changed("enable_input_require_grads()", type(model).__name__)
