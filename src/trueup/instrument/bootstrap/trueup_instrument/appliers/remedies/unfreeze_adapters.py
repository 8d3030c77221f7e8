"""The active adapters of a model are trainable and in its optimizer, where loading or a loop over names froze them."""

from __future__ import annotations

from trueup_instrument.adapter_names import is_adapter
from trueup_instrument.appliers.binding import Binding, plain_name
from trueup_instrument.appliers.replacing import change_arguments, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    binding = Binding(switch)
    switch.after("peft.peft_model", lambda module: _loading(switch, module))
    switch.after("torch.nn.parallel.distributed", lambda module: _wrapper(switch, module))
    switch.after("torch.optim.optimizer", lambda module: _optimizers(switch, binding, module))


def _loading(switch: Switch, module: Any) -> None:
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


def _wrapper(switch: Switch, module: Any) -> None:
    """DDP reduces the gradients of the parameters that require one when it is made."""

    def unfreeze(arguments: dict[str, Any]) -> None:
        frozen = [each for each in _adapters(arguments["module"]) if not each.requires_grad]
        for each in frozen:
            each.requires_grad_(True)
        if frozen:
            switch.changed(f"{len(frozen)} tensors of adapters made trainable", "DistributedDataParallel")

    change_arguments(switch, module.DistributedDataParallel, "__init__", unfreeze)


def _optimizers(switch: Switch, binding: Binding, module: Any) -> None:
    """Adapters that are frozen when their model's optimizer is made join its first group."""

    def join(optimizer: Any) -> None:
        group = optimizer.param_groups[0]["params"]
        held = {id(each) for one in optimizer.param_groups for each in one["params"]}
        for model in binding.models():
            if not any(id(each) in held for each in model.parameters()):
                continue
            frozen = [each for each in _adapters(model) if not each.requires_grad]
            for each in frozen:
                each.requires_grad_(True)
                if id(each) not in held:
                    group.append(each)
            if frozen:
                switch.changed(f"{len(frozen)} tensors of adapters made trainable", type(optimizer).__name__)

    joined = switch.guarded(join)

    def init(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            joined(self)

        return init

    replace(module.Optimizer, "__init__", init)


def _adapters(model: Any) -> list[Any]:
    """The parameters of the active adapters of PEFT's layers, or of adapters that are no class of PEFT's."""
    found, tuned = [], False
    for layer in model.modules():
        tuned = tuned or hasattr(layer, "adapter_layer_names")
        active = getattr(layer, "active_adapters", ()) if hasattr(layer, "adapter_layer_names") else ()
        for name in layer.adapter_layer_names if active else ():
            parts = getattr(layer, name)
            for adapter in active:
                if adapter in parts:
                    part = parts[adapter]
                    found += list(part.parameters()) if hasattr(part, "parameters") else [part]
    return [each for each in found if hasattr(each, "requires_grad_")] if tuned else _own(model)


def _own(model: Any) -> list[Any]:
    """None where one of them is trainable: then it was chosen which are."""
    found = [
        each for name, each in model.named_parameters() if is_adapter(plain_name(name)) and each.is_floating_point()
    ]
    return [] if any(each.requires_grad for each in found) else found
