"""Activation checkpointing in the sampled step: what was checkpointed, which variant, and what really ran again."""

from __future__ import annotations

import sys
from types import BuiltinFunctionType, FunctionType, MethodType

from trueup_instrument import places
from trueup_instrument.attributes import plain_attribute
from trueup_instrument.frames import innermost_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any

    from trueup_instrument.frames import Listener
    from trueup_instrument.sampling import Sample

NAME = "checkpointing"


class Window:
    def __init__(self, sample: Sample) -> None:
        self.session = sample.session
        self.calls = 0
        self.blocks = 0
        """Composed modules inside of the calls: `checkpoint_sequential` puts several into one."""
        self.reentrant = 0
        self.recomputed = 0
        self.without_rng = 0
        self.around_compiled = 0
        self.at: str | None = None
        self.function: str | None = None

    def listeners(self) -> dict[CodeType, Listener]:
        module = sys.modules.get("torch.utils.checkpoint")
        if module is None:
            return {}
        found: dict[CodeType, Listener] = {}
        outer = innermost_code(getattr(module, "checkpoint", None))
        if outer is not None:
            found[outer] = self._called
        backward = innermost_code(getattr(getattr(module, "CheckpointFunction", None), "backward", None))
        if backward is not None:
            found[backward] = self._ran_again
        again = _nested(
            innermost_code(getattr(module, "_checkpoint_without_reentrant_generator", None)), "recompute_fn"
        )
        if again is not None:
            found[again] = self._ran_again
        return found

    def _called(self, frame: FrameType) -> None:
        given = frame.f_locals
        self.calls += 1
        options = given.get("kwargs") or {}
        reentrant = given.get("use_reentrant")
        self.reentrant += reentrant is None or bool(reentrant)
        self.without_rng += options.get("preserve_rng_state", True) is False
        function = given.get("function")
        composed = [each for each in sequential_modules(function) if plain_attribute(each, "_modules", True)]
        self.blocks += max(1, len(composed))
        self.around_compiled += is_compiled(function)
        if self.at is None:
            self.at = places.user_line(frame.f_back)
            self.function = plain_name(function)

    def _ran_again(self, frame: FrameType) -> None:
        self.recomputed += 1

    def fields(self) -> dict[str, Any]:
        return {
            "checkpointing": {
                "calls": self.calls,
                "blocks": self.blocks,
                "reentrant_calls": self.reentrant,
                "recomputed": self.recomputed,
                "without_rng_state": self.without_rng,
                "around_compiled": self.around_compiled,
                "function": self.function,
                "at": self.at,
            }
        }


def is_compiled(function: Any) -> bool:
    """True for what torch.compile or Module.compile made, and for bound methods of such modules."""
    owner = function.__self__ if isinstance(function, MethodType) else function
    if (
        "_orig_mod" in plain_attribute(owner, "_modules", {})
        or plain_attribute(owner, "_compiled_call_impl") is not None
    ):
        return True
    return plain_attribute(function, "_torchdynamo_orig_callable") is not None


def sequential_modules(function: Any) -> list[Any]:
    """What one call of `checkpoint_sequential` runs, whose function holds the modules and the ends of its part."""
    if getattr(function, "__module__", None) != "torch.utils.checkpoint" or not isinstance(function, FunctionType):
        return []
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    held = {name: cell.cell_contents for name, cell in cells}
    if held.keys() != {"functions", "start", "end"}:
        return []
    return list(held["functions"][held["start"] : held["end"] + 1])


def plain_name(function: Any) -> str:
    """Of a function or method its own name; of another callable, a module for one, that of its class."""
    named = isinstance(function, (FunctionType, MethodType, BuiltinFunctionType))
    return function.__qualname__ if named else type(function).__name__


def _nested(code: CodeType | None, name: str) -> CodeType | None:
    """The code object of the function `name` defined inside `code`, or None."""
    for constant in code.co_consts if code is not None else ():
        if getattr(constant, "co_name", None) == name:
            return constant  # type: ignore[no-any-return]  # only code objects have that name
    return None
