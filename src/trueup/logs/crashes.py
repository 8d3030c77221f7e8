"""The report of Python's faulthandler: a process that a signal ended, with the Python frames of its threads."""

from __future__ import annotations

import re

from trueup.logs.frames import python_frame
from trueup.logs.lines import Draft, Line

_OPENING = re.compile(r"^Fatal Python error: (?P<type>[^:]+)")
_THREAD = re.compile(r"^(?P<current>Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):")
_STACK = re.compile(r"^Stack \(most recent call first\):")
_OTHER = re.compile(
    r"^(?:Python runtime state: |Extension modules: |<Cannot show all threads|Current thread's C stack trace|"
    r"\s+(?:Binary file |<no Python frame>|\.\.\.|Garbage-collecting))"
)


class Crash:
    """Reads one report; the frames are those of the thread that crashed."""

    def __init__(self, line: Line, type: str) -> None:
        self.draft = Draft("native", "root", line, type=type, message=[line.text.strip()])
        self.done = False
        self.last_line = line.number
        self.advice: list[Line] = []
        self._in_current = False

    @property
    def waits(self) -> bool:
        """False: nothing stands between the lines of a report, which one process writes at once."""
        return False

    def offer(self, line: Line) -> bool:
        """Takes the line when it is one of the report."""
        text = line.text
        if thread := _THREAD.match(text):
            self._in_current = thread["current"] == "Current thread"
        elif _STACK.match(text):
            self._in_current = True
        elif frame := python_frame(text):
            if self._in_current:
                self.draft.frames.insert(0, frame)
        elif text.strip() and not _OTHER.match(text):
            self.done = True
            return False
        if text.strip():
            self.last_line = self.draft.last_line = line.number
        return True

    def finish(self) -> Draft:
        """The failure as far as it was printed."""
        self.done = True
        return self.draft


def crash(line: Line) -> Crash | None:
    """The report that this line opens."""
    found = _OPENING.match(line.text)
    return Crash(line, found["type"].strip()) if found else None
