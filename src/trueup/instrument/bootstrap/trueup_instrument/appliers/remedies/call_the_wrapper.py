"""A model that DistributedDataParallel wraps is called through it, where the program calls the model itself."""

from __future__ import annotations

import sys
import weakref

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("torch.nn.parallel.distributed", lambda module: _wrapper(switch, module.DistributedDataParallel))


def _wrapper(switch: Switch, kind: Any) -> None:
    inside: list[Any] = []
    """The wrappers whose forward runs."""

    def forward(original: Callable[..., Any]) -> Callable[..., Any]:
        def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
            if sys.modules["torch"].compiler.is_compiling():
                return original(self, *args, **kwargs)
            inside.append(self)
            try:
                return original(self, *args, **kwargs)
            finally:
                inside.pop()

        return forward

    def init(original: Callable[..., Any]) -> Callable[..., Any]:
        route = switch.guarded(lambda wrapper: _route(switch, wrapper, inside))

        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            route(self)

        return init

    replace(kind, "forward", forward)
    replace(kind, "__init__", init)


def _route(switch: Switch, wrapper: Any, inside: list[Any]) -> None:
    """By the attribute of modules through which `Module.compile` reroutes calls, too; it is not saved with them."""
    model = wrapper.module
    if not hasattr(type(model), "_wrapped_call_impl"):
        switch.cannot("modules of this torch cannot be called in another way")
        return
    compiled, own = getattr(model, "_compiled_call_impl", None), weakref.ref(wrapper)
    plain = weakref.WeakMethod(model._call_impl)

    def call(*args: Any, **kwargs: Any) -> Any:
        torch, around, direct = sys.modules["torch"], own(), compiled or plain()
        assert direct is not None  # the model is alive while it is called
        if (
            around is None
            or torch.compiler.is_compiling()
            or not (torch.is_grad_enabled() and around.training and around.module.training)
            or any(each is around for each in inside)
        ):
            return direct(*args, **kwargs)
        switch.changed("called through its wrapper", type(around.module).__name__)
        return around(*args, **kwargs)

    model._compiled_call_impl = call
