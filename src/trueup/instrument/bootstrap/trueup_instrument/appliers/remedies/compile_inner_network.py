"""The network that a trainer trains is compiled in place, and not the trainer's own code around it.

torch.compile may be given a trainer's module (a LightningModule), a method of a trainer (`trainer.training_step`) or a
function that uses accelerate's Accelerator. Those then run as plain Python, and what they call runs compiled.
"""

from __future__ import annotations

import functools
import sys
import types

from trueup_instrument.appliers.compiling import compile_in_place, compile_modules
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

OF_TRAINERS: dict[str, tuple[str, ...]] = {
    "LightningModule": ("lightning", "pytorch_lightning"),
    "ComposerModel": ("composer",),
}
"""Classes of modules that hold the training step beside the network → the packages that they are of."""
TRAINERS: dict[str, tuple[str, ...]] = {"Trainer": ("transformers",), "Accelerator": ("accelerate",)}
"""Classes whose code is not to be traced → the packages that they are of."""


def attach(switch: Switch) -> None:
    compile_modules(switch, lambda module, options: _inner(switch, module, options), in_place=True)
    switch.after("torch", lambda torch: replace(torch, "compile", lambda original: _callables(switch, original)))


def _is_one_of(thing: Any, classes: dict[str, tuple[str, ...]]) -> bool:
    return any(base.__module__.partition(".")[0] in classes.get(base.__name__, ()) for base in type(thing).__mro__)


def _inner(switch: Switch, module: Any, options: dict[str, Any]) -> Any:
    """The trainer's module itself, its networks compiled, and its own call where it has a forward; else None."""
    if not _is_one_of(module, OF_TRAINERS):
        return None
    networks = [child for child in module.children() if any(True for _ in child.parameters())]
    for network in networks:
        compile_in_place(network, options)
    own = any("forward" in base.__dict__ for base in type(module).__mro__ if not _is_trainers_own(base))
    if own:
        module._compiled_call_impl = _own_call(module, options)
    if networks or own:
        switch.changed(
            f"{len(networks) or 1} networks compiled, not the trainer's code; torch.compile(module) gives the module "
            "itself, without _orig_mod",
            type(module).__name__,
        )
        return module
    return None


def _own_call(module: Any, options: dict[str, Any]) -> Callable[..., Any]:
    """The module's call, compiled where it runs the forward of its class.

    Lightning sends training_step through a wrapper's call: for that one it puts another in the place of forward.
    """
    torch = sys.modules["torch"]
    compiled = torch.compile(module._call_impl, **options)

    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or getattr(module.forward, "__func__", None) is type(module).forward:
            return compiled(*args, **kwargs)
        return module._call_impl(*args, **kwargs)

    return call


def _is_trainers_own(base: type[Any]) -> bool:
    packages = {package for given in OF_TRAINERS.values() for package in given}
    return base.__module__.partition(".")[0] in {*packages, "torch", "builtins"}


def _callables(switch: Switch, original: Callable[..., Any]) -> Callable[..., Any]:
    choose = switch.guarded(lambda target, given, options: _networks_of(switch, target, given, options))
    torch = sys.modules["torch"]

    def torch_compile(model: Any = None, **options: Any) -> Any:
        compiled = original(model, **options)
        if not isinstance(model, (types.FunctionType, types.MethodType)) or options.get("disable"):
            return compiled
        if isinstance(getattr(model, "__self__", None), torch.nn.Module):
            return compiled
        chosen: list[Callable[..., Any]] = []

        @functools.wraps(model)
        def call(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return compiled(*args, **kwargs)
            if not chosen:  # what the program trains is known when it is called
                chosen.append(model if choose(model, (*args, *kwargs.values()), options) else compiled)
            return chosen[0](*args, **kwargs)

        return call

    return torch_compile


def _networks_of(switch: Switch, target: Any, given: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Compile the networks that a function or method of a trainer trains; False where it is of no trainer."""
    module_class = sys.modules["torch"].nn.Module
    owner = getattr(target, "__self__", None)
    if owner is not None:
        names = [*vars(owner).values()] if hasattr(owner, "__dict__") else []
        used = [owner, *names, *given]
    else:
        used = [*_named(target), *given]
    if not any(_is_one_of(each, TRAINERS) for each in used):
        return False
    networks = _outermost([each for each in used if isinstance(each, module_class)])
    for network in networks:
        compile_in_place(network, options)
        switch.changed("compiled in place, not the training step around it", type(network).__name__)
    return bool(networks)


def _named(function: Any) -> Iterator[Any]:
    """What a function takes from its closure and its module, by name."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not bound yet
            continue
    for name in function.__code__.co_names:
        if name in function.__globals__:
            yield function.__globals__[name]


def _outermost(networks: list[Any]) -> list[Any]:
    """Each module once, those within another left out, and those without parameters."""
    unique = list({id(network): network for network in networks}.values())
    inner = {id(part) for network in unique for part in network.modules() if part is not network}
    return [each for each in unique if id(each) not in inner and next(each.parameters(), None) is not None]
