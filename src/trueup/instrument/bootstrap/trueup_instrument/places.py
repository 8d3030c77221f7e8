"""Where in the user's code something happens."""

from __future__ import annotations

import os
import sys
import sysconfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

START = "TRUEUP_START"
"""Variable with the folder that the command was started in; without it the current one counts."""
_OURS = os.path.dirname(os.path.abspath(__file__))
_TRUEUP = os.path.dirname(os.path.dirname(os.path.dirname(_OURS)))
"""The package that brings us along: its Python API calls torch in the name of the user."""
_LIBRARY_FOLDERS = tuple(
    {
        os.path.realpath(path) + os.sep
        for path in (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
        if path
    }
)
_LIBRARY_PARTS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_known: dict[str, bool] = {}


def is_user_file(filename: str) -> bool:
    """True for code that is neither installed, nor Python's own, nor ours, nor generated."""
    answer = _known.get(filename)
    if answer is None:
        answer = not (
            filename.startswith(("<", _OURS, _TRUEUP + os.sep))
            or any(part in filename for part in _LIBRARY_PARTS)
            or os.path.realpath(filename).startswith(_LIBRARY_FOLDERS)
            or "torchinductor_" in filename
        )
        _known[filename] = answer
    return answer


def user_line(frame: FrameType | None = None) -> str | None:
    """`file:line` of the innermost user frame at or above `frame` (the caller by default), or None."""
    frame = frame or sys._getframe(1)
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            return f"{shown(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def user_line_of(stack: Sequence[tuple[str, int]]) -> str | None:
    """`file:line` of the innermost user frame of `stack`, a list of (filename, line) outermost first, or None."""
    for filename, line in reversed(stack):
        if is_user_file(filename):
            return f"{shown(filename)}:{line}"
    return None


def shown(filename: str) -> str:
    """The file's path relative to the folder that the job was started in, or that it is in, else as it is."""
    for folder in filter(None, (os.environ.get(START), os.curdir)):
        try:
            relative = os.path.relpath(filename, folder)
        except (ValueError, OSError):
            continue
        if not relative.startswith(".."):
            return relative
    return filename


def installed(filename: str) -> str:
    """The path below site-packages (`torch/nn/modules/module.py`) of an installed file, else the path as shown."""
    for part in _LIBRARY_PARTS:
        _, found, below = filename.rpartition(part)
        if found:
            return below
    return shown(filename)
