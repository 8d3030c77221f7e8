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
    switch.after("transformers.configuration_utils", lambda module: _configurations(switch, module))


def _configurations(switch: Switch, module: Any) -> None:
    """Newer releases choose eager attention, or raise, as soon as the setting is set to True."""
    kind = getattr(module, "PreTrainedConfig", None) or module.PretrainedConfig
    asked = vars(kind).get("output_attentions")
    if not isinstance(asked, property) or asked.fset is None:
        return
    original = asked.fset
    told = switch.guarded(lambda name: switch.changed("config.output_attentions = False", name))

    def keep_off(self: Any, value: Any) -> None:
        if value:
            told(type(self).__name__)
        original(self, False)

    kind.output_attentions = asked.setter(keep_off)


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
