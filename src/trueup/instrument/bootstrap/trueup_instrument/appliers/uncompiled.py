"""torch.compile gives back the module that it was given, as torch itself does where compiling is disabled.

What refuses a compiled model, or stumbles over its `_orig_mod.` in names, then finds none. A program that reads
`_orig_mod` of what it compiled gets the module; one that asks whether there is one is told that there is not.
"""

from __future__ import annotations

import dis
import sys
import weakref

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PREFIX = "_orig_mod."


def attach(frames: Any) -> None:
    """`frames` is the module `torch._dynamo.eval_frame`."""
    module_class: Any = sys.modules["torch"].nn.Module
    given: weakref.WeakSet[Any] = weakref.WeakSet()

    def compiled(original: Callable[..., Any]) -> Callable[..., Any]:
        def __call__(context: Any, fn: Any) -> Any:
            result = original(context, fn)
            if type(context) is not frames.OptimizeContext or not isinstance(fn, module_class):
                return result
            given.add(fn)
            return fn

        return __call__

    def loaded(original: Callable[..., Any]) -> Callable[..., Any]:
        def load_state_dict(module: Any, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
            """A state dict of the compiled module, saved in another run, fits."""
            if module in given and all(name.startswith(PREFIX) for name in state_dict):
                state_dict = {name.removeprefix(PREFIX): value for name, value in state_dict.items()}
            return original(module, state_dict, *args, **kwargs)

        return load_state_dict

    replace(frames._TorchDynamoContext, "__call__", compiled)
    replace(module_class, "load_state_dict", loaded)
    module_class._orig_mod = _Original(given)


class _Original:
    """A descriptor that gives way to what an instance holds under the name."""

    def __init__(self, given: weakref.WeakSet[Any]) -> None:
        self._given = given

    def __get__(self, module: Any, kind: Any = None) -> Any:
        if module is not None and module in self._given and _is_read(sys._getframe(1)):
            return module
        raise AttributeError("_orig_mod")


def _is_read(frame: Any) -> bool:
    """Whether the frame reads the attribute by its name, rather than by `hasattr` or `getattr`."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]] in ("LOAD_ATTR", "LOAD_METHOD")
