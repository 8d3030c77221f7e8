"""Every checkpoint is the non-reentrant kind, whatever `use_reentrant` it is given."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import change_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("torch.utils.checkpoint", lambda module: _functions(switch, module))
    name = "torch.distributed.algorithms._checkpoint.checkpoint_wrapper"
    switch.after(name, lambda module: _wrapper(switch, module))


def _functions(switch: Switch, module: ModuleType) -> None:
    """The one function that Hugging Face's and Lightning's switches and `checkpoint_sequential` end in."""

    def choose(arguments: dict[str, Any]) -> None:
        if arguments.get("use_reentrant") is not False:
            arguments["use_reentrant"] = False
            switch.changed("use_reentrant = False")

    change_arguments(switch, module, "checkpoint", choose)


def _wrapper(switch: Switch, module: Any) -> None:
    kinds = module.CheckpointImpl

    def choose(arguments: dict[str, Any]) -> None:
        if arguments["checkpoint_impl"] is kinds.REENTRANT:
            arguments["checkpoint_impl"] = kinds.NO_REENTRANT
            switch.changed("checkpoint_impl = NO_REENTRANT")

    change_arguments(switch, module.CheckpointWrapper, "__init__", choose)
