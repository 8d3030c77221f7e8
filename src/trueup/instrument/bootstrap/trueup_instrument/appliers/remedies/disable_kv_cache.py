"""Hugging Face models build no key/value cache while they train; generation keeps its own setting, which is on."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("transformers.modeling_utils", lambda module: _models(switch, module))


def _models(switch: Switch, module: ModuleType) -> None:
    """`train(True)` comes before training; a fresh model is in training mode without it, so its making counts, too."""
    off = switch.guarded(lambda model: _without_cache(switch, model))

    def train(original: Callable[..., Any]) -> Callable[..., Any]:
        def train(self: Any, mode: bool = True) -> Any:
            if mode:
                off(self)
            return original(self, mode)

        return train

    def post_init(original: Callable[..., Any]) -> Callable[..., Any]:
        def post_init(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            off(self)
            return result

        return post_init

    if not replace(module.PreTrainedModel, "post_init", post_init):
        switch.cannot("this transformers makes its models by other means", "PreTrainedModel")
    replace(module.PreTrainedModel, "train", train)


def _without_cache(switch: Switch, model: Any) -> None:
    for config in (model.config, getattr(model.config, "text_config", None)):
        if config is not None and getattr(config, "use_cache", False):
            config.use_cache = False
            switch.changed("config.use_cache = False", type(model).__name__)
