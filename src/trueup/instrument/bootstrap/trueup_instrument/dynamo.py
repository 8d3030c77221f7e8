"""Keeps Dynamo from looking at the observers themselves.

After a graph break Dynamo looks at every frame that the broken code calls, so also at a replacement of ours and at what
it calls: a compiled training step that contains `loss.backward()` would gain graphs and breaks by being observed.
"""

from __future__ import annotations

import functools
import os
import sys
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import CodeType, ModuleType
    from typing import Any, ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")

_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep


def unseen(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, within which Dynamo looks at no frame, as within `torch.compiler.disable`."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        evaluation: Any = sys.modules.get("torch._C._dynamo.eval_frame")
        ask = getattr(evaluation, "get_eval_frame_callback", None)
        callback = ask() if ask is not None else None
        if callback is None:
            return function(*args, **kwargs)
        evaluation.set_eval_frame(None)
        try:
            return function(*args, **kwargs)
        finally:
            evaluation.set_eval_frame(callback)

    return call


def hide_own_code(evaluation: ModuleType) -> None:
    """Have Dynamo run each function of this package as it is; what they call is its business as before.

    `evaluation` is the module `torch._dynamo.eval_frame`, whose `skip_code` marks one code object. Where a traced
    function calls one of ours it is still inlined, and there asks `torch.compiler.is_compiling`.
    """
    skip = getattr(evaluation, "skip_code", None)
    if skip is not None:
        for code in _own_codes():
            skip(code)


def _own_codes() -> list[CodeType]:
    """Code objects of all functions in this package's modules, with those of the functions inside them."""
    package = __name__.partition(".")[0]
    waiting: list[CodeType] = []
    found: dict[int, CodeType] = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == package and isinstance(module, types.ModuleType):
            waiting.extend(_codes_of(vars(module)))
    while waiting:
        code = waiting.pop()
        if id(code) not in found:  # equal code objects are not one
            found[id(code)] = code
            waiting.extend(constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return list(found.values())


def _codes_of(namespace: Mapping[str, Any]) -> Iterator[CodeType]:
    for value in list(namespace.values()):
        if isinstance(value, type) and value.__module__.partition(".")[0] == __name__.partition(".")[0]:
            yield from _codes_of(vars(value))
        value = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
        code = getattr(value, "__code__", None)
        if isinstance(code, types.CodeType) and code.co_filename.startswith(_OURS):
            yield code
