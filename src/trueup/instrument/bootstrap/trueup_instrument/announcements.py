"""What set-up observers say: `layer` events with the user's line, and `request` events, neither without end."""

from __future__ import annotations

import os
import sys

from trueup_instrument import places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from trueup_instrument.session import Session

_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep

LISTED = 40
"""Events of one kind and class that are written; a model of a thousand blocks needs no thousand lines."""


class Announcements:
    """Writes the events of one observer."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._told: dict[tuple[str, str | None], int] = {}
        self._requested: dict[tuple[str, str, str], Any] = {}

    def layer(self, layer: str, event: str, module: str | None = None, **detail: Any) -> None:
        """Record that a layer was applied; the last event that is listed says that later ones are not."""
        told = self._told[event, module] = self._told.get((event, module), 0) + 1
        if told > LISTED:
            return
        if told == LISTED:
            detail["later_not_listed"] = True
        self._session.layer(layer, event, module, places.user_line(), **detail)

    def request(self, layer: str, setting: str, value: Any, source: str) -> None:
        """Record what was asked for, once for each value; None means that nothing was asked for."""
        if value is None or self._requested.get((layer, setting, source)) == value:
            return
        self._requested[layer, setting, source] = value
        self._session.request(layer, setting, value, places.user_line(), source)


def calling_library() -> str | None:
    """Top-level package of the library that made the observed call, or None when the user's own code made it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        filename, module = frame.f_code.co_filename, frame.f_globals.get("__name__") or ""
        # `torch.compile(mode=...)` used as a decorator calls itself from torch's outermost module
        if not filename.startswith(_OURS) and module != "torch":
            return None if places.is_user_file(filename) else module.partition(".")[0]
        frame = frame.f_back
    return None


CONFIGURED = ("accelerate", "transformers")
"""Libraries whose own configuration is observed: what they build, they were told to build by that."""


def is_own_decision() -> bool:
    """Whether an observed call is a request in itself, and not what a library makes of its configuration."""
    return calling_library() not in CONFIGURED


def spoken(value: Any) -> Any:
    """`value` as JSON takes it: plain values as they are, an enum or function by its name, a dtype without `torch.`."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return getattr(value, "value", value)[:200]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [spoken(item) for item in value]
    if isinstance(value, dict):
        return {str(name): spoken(item) for name, item in value.items()}
    name = getattr(value, "__name__", None) or getattr(value, "name", None)
    return (name if isinstance(name, str) else str(value)).removeprefix("torch.")[:200]


SHORT = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "half": "fp16", "float": "fp32"}


def precision_name(dtype: Any) -> Any:
    """`bf16`, `fp16` or `fp32` for a torch dtype or its name; other names as they are; None for None."""
    name = spoken(dtype)
    return SHORT.get(name, name)
