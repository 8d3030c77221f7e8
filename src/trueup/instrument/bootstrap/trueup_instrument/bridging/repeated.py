"""A tensor that is given twice to an autograd.Function: Dynamo traces none, so that the second becomes a view of it.

Self-attention over documents gives the same boundaries for queries and keys. torch 2.13 then breaks the graph with
"autograd.Function.apply: duplicate tensor input", also with the flash-attn that registers operators.
"""

from __future__ import annotations

import inspect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def allow_repeated(torch: Any, module: Any) -> list[str]:
    """Let the graphs of all autograd.Functions of `module` hold repeated tensors: the names of those."""
    kind = torch.autograd.Function
    found = [
        name
        for name, each in vars(module).items()
        if inspect.isclass(each) and issubclass(each, kind) and each is not kind and each.__module__ == module.__name__
    ]
    for name in found:
        setattr(module, name, _distinct(torch, getattr(module, name)))
    return found


def _distinct(torch: Any, function: Any) -> Any:
    is_compiling, tensor = torch.compiler.is_compiling, torch.Tensor

    class Distinct:
        """Stands for the autograd.Function where its library calls it."""

        forward, backward = staticmethod(function.forward), staticmethod(function.backward)

        @staticmethod
        def apply(*args: Any) -> Any:
            if not is_compiling():
                return function.apply(*args)
            seen: list[Any] = []
            given: list[Any] = []
            for each in args:
                again = isinstance(each, tensor) and any(each is other for other in seen)
                given.append(each.view_as(each) if again else each)
                if isinstance(each, tensor):
                    seen.append(each)
            return function.apply(*given)

    Distinct.__name__ = Distinct.__qualname__ = function.__name__
    return Distinct
