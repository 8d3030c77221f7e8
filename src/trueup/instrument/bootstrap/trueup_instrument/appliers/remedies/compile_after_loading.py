"""A copy of a module that was compiled in place, by deepcopy or pickle within the process, is compiled as it was."""

from __future__ import annotations

import itertools
import os
import weakref

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

MARK = "_compiled_as"
"""In the state of a compiled module: a key to its options, which only this process has."""


def attach(switch: Switch) -> None:
    switch.after("torch", lambda torch: _modules(switch, torch.nn.Module))


def _modules(switch: Switch, kind: Any) -> None:
    number = itertools.count()
    of_module: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
    options_of: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {}
    process = f"{os.getpid()}-{os.urandom(4).hex()}"

    def compile(original: Callable[..., Any]) -> Callable[..., Any]:
        def compile(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            of_module[self] = f"{process}-{next(number)}"
            options_of[of_module[self]] = args, kwargs

        return compile

    def get(original: Callable[..., Any]) -> Callable[..., Any]:
        def __getstate__(self: Any) -> Any:
            state = original(self)
            if isinstance(state, dict) and self in of_module and self._compiled_call_impl is not None:
                state[MARK] = of_module[self]
            return state

        return __getstate__

    def set_(original: Callable[..., Any]) -> Callable[..., Any]:
        again = switch.guarded(compile_again)

        def __setstate__(self: Any, state: Any) -> None:
            mark = state.pop(MARK, None) if isinstance(state, dict) else None
            original(self, state)
            if mark in options_of:
                again(self, *options_of[mark])

        return __setstate__

    def compile_again(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        module.compile(*args, **kwargs)
        switch.changed("compiled again after copying or loading", type(module).__name__)

    if not (hasattr(kind, "compile") and replace(kind, "__getstate__", get) and replace(kind, "__setstate__", set_)):
        switch.cannot("modules of this torch keep no compiled call of their own")
        return
    replace(kind, "compile", compile)
