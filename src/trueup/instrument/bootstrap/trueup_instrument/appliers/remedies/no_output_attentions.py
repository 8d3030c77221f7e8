"""Hugging Face models return no attention weights while they train, for which they would leave fused attention."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("transformers.modeling_utils", lambda module: _models(switch, module))


def _models(switch: Switch, module: Any) -> None:
    """The configuration is asked before the model is made: fused attention is chosen then."""
    off = switch.guarded(lambda config: _without(switch, config))

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, config: Any, *args: Any, **kwargs: Any) -> Any:
            off(config)
            return original(self, config, *args, **kwargs)

        return init

    replace(module.PreTrainedModel, "__init__", make)


def _without(switch: Switch, config: Any) -> None:
    if getattr(config, "output_attentions", False):
        config.output_attentions = False
        switch.changed("config.output_attentions = False", type(config).__name__)
