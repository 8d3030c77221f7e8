"""An adapter that is loaded for training is trainable."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import change_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("peft.peft_model", lambda module: _models(switch, module))


def _models(switch: Switch, module: Any) -> None:
    """Loading for inference and `inference_mode` of a configuration freeze an adapter."""

    def trainable(arguments: dict[str, Any]) -> None:
        if not arguments["is_trainable"]:
            arguments["is_trainable"] = True
            switch.changed("is_trainable = True")

    def without_inference_mode(arguments: dict[str, Any]) -> None:
        config = arguments["peft_config"]
        if getattr(config, "inference_mode", False):
            config.inference_mode = False
            switch.changed("inference_mode = False")

    change_arguments(switch, module.PeftModel, "from_pretrained", trainable)
    change_arguments(switch, module.PeftModel, "load_adapter", trainable)
    change_arguments(switch, module.PeftModel, "__init__", without_inference_mode)
