"""Changes of dtype and device that the user's own code makes to a whole module."""

from __future__ import annotations

import os
import sys

from trueup_instrument import modules, patching, places
from trueup_instrument.announcements import Announcements, spoken

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, ModuleType
    from typing import Any

    from trueup_instrument.patching import After
    from trueup_instrument.session import Session

    State = tuple[set[Any], ...]

NAME = "moves"
CALLS = ("to", "half", "bfloat16", "float", "double", "cuda", "cpu", "to_empty")
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def attach(session: Session) -> None:
    say = Announcements(session)
    session.after_torch(NAME, "torch.nn.modules.module", lambda module: _calls(session, say, module))


def _calls(session: Session, say: Announcements, module: ModuleType) -> None:
    for name in CALLS:
        patching.around(session, NAME, module.Module, name, _before, _after(say, name), group="moves")


def _before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[State, list[tuple[str, ...]]] | None:
    return (_state(args[0]), modules.shared_parameters(args[0])) if args and _user_called() else None


def _after(say: Announcements, name: str) -> After:
    def moved(
        result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: tuple[State, list[tuple[str, ...]]] | None
    ) -> None:
        was, shared = seen or ((), [])
        if not was:
            return
        now = _state(args[0])
        if now != was:
            say.layer(
                "precision",
                "to",
                modules.class_name(args[0]),
                call=name,
                dtype=_one(now[0]),
                device=_one(now[1]),
                dtype_before=_one(was[0]),
                device_before=_one(was[1]),
                come_apart=modules.come_apart(args[0], shared),
            )

    return moved


def _state(module: Any) -> State:
    """(dtypes, devices) of the parameters; empty when there are none."""
    dtypes, devices = set(), set()
    for parameter in module.parameters():
        dtypes.add(parameter.dtype)
        devices.add(parameter.device)
    return (dtypes, devices) if dtypes else ()


def _one(values: set[Any]) -> str:
    return ", ".join(sorted(spoken(value) for value in values))


def _user_called() -> bool:
    """Whether user code made this call, directly or through a library's override of the same method."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_OURS) and code.co_name not in CALLS:
            return places.is_user_file(code.co_filename)
        frame = frame.f_back
    return False
