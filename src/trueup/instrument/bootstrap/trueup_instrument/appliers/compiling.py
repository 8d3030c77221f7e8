"""What the appliers do to torch.compile when it is given a module."""

from __future__ import annotations

import sys

from trueup_instrument import modules
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

    Compile = Callable[[Any, dict[str, Any]], Any]


def compile_modules(switch: Switch, compile: Compile, in_place: bool = False) -> None:
    """Have `compile(module, options)` answer each `torch.compile(module, **options)`, unless it gives None.

    With `in_place` each `module.compile(**options)`, too.
    """
    switch.after("torch", lambda torch: replace(torch, "compile", lambda f: _made(switch, torch, f, compile)))
    if in_place:
        switch.after("torch", lambda torch: replace(torch.nn.Module, "compile", lambda f: _method(switch, f, compile)))


def is_of_torch(module: Any) -> bool:
    """Whether the module's forward is one of torch.nn itself."""
    return str(getattr(type(module).forward, "__module__", "")).startswith("torch.nn.")


def compile_in_place(module: Any, options: dict[str, Any]) -> None:
    """`module.compile(**options)`, also for a class of torch.nn, whose frames Dynamo skips unless another is around."""
    if not is_of_torch(module):
        module.compile(**options)
        return
    torch = sys.modules["torch"]
    from torch._dynamo.external_utils import wrap_inline

    module._compiled_call_impl = torch.compile(wrap_inline(module._call_impl), **options)


def repeated_blocks(model: Any) -> list[Any]:
    """The members of the lists and dicts of modules in which one class comes more than once; none within another.

    Of a list of stages, Sequentials of equal blocks, it is the blocks; of a list of lists, the members of those.
    """
    nn = sys.modules["torch"].nn
    lists = (nn.ModuleList, nn.ModuleDict, nn.Sequential)
    found: list[Any] = []
    inside: set[int] = set()
    for module in model.modules():
        if id(module) in inside or not isinstance(module, lists):
            continue
        members = [child for child in module._modules.values() if child is not None and not modules.is_container(child)]
        kinds = [type(child) for child in members]
        for child in members:
            if kinds.count(type(child)) > 1 and any(True for _ in child.children()) and not modules.is_stage(child):
                found.append(child)
                inside.update(id(inner) for inner in child.modules())
    return found


def _made(switch: Switch, torch: Any, original: Callable[..., Any], compile: Compile) -> Callable[..., Any]:
    guarded = switch.guarded(compile)

    def torch_compile(model: Any = None, **options: Any) -> Any:
        if isinstance(model, torch.nn.Module) and not options.get("disable"):
            done = guarded(model, dict(options))
            if done is not None:
                return done
        return original(model, **options)

    return torch_compile


def _method(switch: Switch, original: Callable[..., Any], compile: Compile) -> Callable[..., Any]:
    guarded = switch.guarded(compile)

    def module_compile(self: Any, *args: Any, **options: Any) -> None:
        if args or guarded(self, options) is None:
            original(self, *args, **options)

    return module_compile
