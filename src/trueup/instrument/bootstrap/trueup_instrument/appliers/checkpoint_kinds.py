"""`checkpointing=off:layers.0`: these blocks run straight. `=reentrant`, `=non_reentrant`: all by that implementation.

A block is what torch.utils.checkpoint is called for: a module, a method or partial call of one, or a function that
holds one. Checkpoints that Dynamo captures in its graphs stay as they are.
"""

from __future__ import annotations

import inspect
import sys

from trueup_instrument.appliers.checkpointing import name_of
from trueup_instrument.appliers.naming import Naming
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

    Decide = Callable[[Any, dict[str, Any]], bool | None]

ALLOWED = {"use_reentrant", "preserve_rng_state", "determinism_check", "debug", "early_stop"}
"""Options that the reentrant implementation takes, or ignores."""


def attach(switch: Switch) -> None:
    change = _Blocks(switch).goes_straight if switch.parts is not None else _implementation(switch)
    switch.after("torch.utils.checkpoint", lambda module: _replace(switch, module, change))


def _replace(switch: Switch, module: ModuleType, change: Decide) -> None:
    """`change(function, kwargs)` says whether a call goes straight, or alters its options."""
    decide = switch.guarded(change)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        parameters = inspect.signature(original).parameters.values()
        own = {each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}
        own.add("preserve_rng_state")

        def checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            if not sys.modules["torch"].compiler.is_compiling() and decide(function, kwargs):
                return function(*args, **{name: value for name, value in kwargs.items() if name not in own})
            return original(function, *args, **kwargs)

        return checkpoint

    replace(module, "checkpoint", make)


def _implementation(switch: Switch) -> Decide:
    wanted = switch.value == "reentrant"

    def change(function: Any, options: dict[str, Any]) -> None:
        asked = options.get("use_reentrant")
        if (asked is None or bool(asked)) == wanted:  # torch takes None for True
            return
        if wanted and set(options) - ALLOWED:
            switch.cannot("the reentrant implementation takes no keyword arguments and no contexts", name_of(function))
            return
        options["use_reentrant"] = wanted
        switch.changed(f"use_reentrant={wanted}", name_of(function))

    return change


class _Blocks:
    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self._straight = frozenset(switch.parts or ())
        self._naming = Naming()
        self._names: list[str] = []

    def goes_straight(self, function: Any, options: dict[str, Any]) -> bool:
        module = _module_of(function)
        name = self._naming.of(module) if module is not None else name_of(function)
        if name not in self._names:
            self._names.append(name)
            self._switch.has_parts(self._names)
        if name in self._straight:
            self._switch.changed("calls the function straight", name)
        return name in self._straight


def _module_of(function: Any) -> Any:
    """The module that a checkpoint runs: of a closure the first that it holds."""
    kind = sys.modules["torch"].nn.Module
    while hasattr(function, "func") and not isinstance(function, kind):  # functools.partial
        function = function.func
    held = [function, getattr(function, "__self__", None)]
    for cell in getattr(function, "__closure__", None) or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # not bound yet
            continue
    return next((each for each in held if isinstance(each, kind)), None)
