"""The open failures of one stream, and which of them a line is offered to first.

Processes that share a stream without prefixes print their tracebacks into each other, line by line or in blocks.
"""

from __future__ import annotations

from trueup.logs.crashes import Crash
from trueup.logs.frames import python_frame
from trueup.logs.groups import GroupReader
from trueup.logs.lines import Line
from trueup.logs.tracebacks import Traceback
from trueup.schema.log import Frame

Open = Traceback | GroupReader | Crash


class Stream:
    """Open failures, the one that took a line last in front."""

    def __init__(self) -> None:
        self.opened: list[Open] = []
        self._run = 0
        """Lines that the front one took in a row, and before it the one behind it."""
        self._previous_run = 0

    def begin(self, each: Open) -> None:
        """A line opened another failure."""
        self._turn_to(each)

    def took(self, each: Open) -> None:
        """`each` took a line."""
        if self.opened and self.opened[0] is each:
            self._run += 1
        else:
            self._turn_to(each)

    def remove(self, each: Open) -> None:
        """`each` is over."""
        self.opened.remove(each)

    def order_for(self, line: Line) -> list[Open]:
        """In which order to offer the line."""
        if len(self.opened) < 2:
            return list(self.opened)
        frame = python_frame(line.text)
        behind = self._behind(frame) if frame else None
        if behind is not None:
            return [behind, *(each for each in self.opened if each is not behind)]
        in_turns = self._run == 1 and self._previous_run == 1
        return self.opened[::-1] if in_turns else list(self.opened)

    def _turn_to(self, each: Open) -> None:
        if each in self.opened:
            self.opened.remove(each)
        self.opened.insert(0, each)
        self._previous_run, self._run = self._run, 1

    def _behind(self, frame: Frame) -> Open | None:
        """All ranks run the same program: a frame that another rank printed at this depth goes to the one behind."""
        readers = [each for each in self.opened if isinstance(each, Traceback) and each.waits]
        if len(readers) < 2:
            return None
        longest = max(readers, key=lambda each: len(each.draft.frames))
        for each in readers:
            at = len(each.draft.frames)
            if at < len(longest.draft.frames) and _same(longest.draft.frames[at], frame):
                return each
        return None


def _same(one: Frame, other: Frame) -> bool:
    return (one.file, one.line, one.function) == (other.file, other.line, other.function)
