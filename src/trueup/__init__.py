"""trueup: see the PyTorch training stack that really ran, and make it what was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trueup.compose.composing import compose
    from trueup.compose.errors import ComposeError, NotAsPlanned, RecompilesBeyondLimit, RecompileWarning
    from trueup.compose.plan import Checkpointing, CompilePolicy, Plan
    from trueup.compose.preparing import composition, prepare
    from trueup.observation import observe

__version__ = "0.1.0"

__all__ = [
    "Checkpointing",
    "CompilePolicy",
    "ComposeError",
    "NotAsPlanned",
    "Plan",
    "RecompileWarning",
    "RecompilesBeyondLimit",
    "compose",
    "composition",
    "observe",
    "prepare",
]

_PLACES = {"composition": "preparing", "prepare": "preparing"}


def __getattr__(name: str) -> Any:
    """The Python API, loaded when it is first asked for: the command line starts without it."""
    import importlib

    if name == "compose":
        return importlib.import_module("trueup.compose")  # the package, which is also the function
    if name == "observe":
        return importlib.import_module("trueup.observation").observe
    if name in __all__:
        module = f"trueup.compose.{_PLACES[name]}" if name in _PLACES else "trueup.compose"
        return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
