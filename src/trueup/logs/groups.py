"""An exception group: a tree of tracebacks in a gutter of `|` and `+`."""

from __future__ import annotations

import re
from dataclasses import replace

from trueup.logs.lines import Draft, Line
from trueup.logs.tracebacks import HEADER, Traceback

_GUTTER = re.compile(r"^(?P<indent> *)(?P<mark>[|+])(?P<rest>.*)$")
_MEMBER = re.compile(r"^(?P<deeper>-\+)?-{3,} [\d.]+ -{3,}$")
_END = re.compile(r"^(?:-\+)?-{10,}$")


class GroupReader:
    """Reads a group line by line; its members become its causes, in the order printed."""

    def __init__(self, line: Line, indent: int) -> None:
        self.done = False
        self.last_line = line.number
        self._open = [(indent, Traceback(Draft("exception", "root", line)))]
        self._top = self._open[0][1]
        self._members: list[tuple[Traceback, Traceback]] = []

    @property
    def waits(self) -> bool:
        """A group ends with its gutter, so it never waits behind foreign lines."""
        return False

    @property
    def advice(self) -> list[Line]:
        return [line for _, member in self._members for line in member.advice]

    def offer(self, line: Line) -> bool:
        """Takes the line when it stands in the gutter."""
        found = _GUTTER.match(line.text)
        if self.done or not found:
            self.done = True
            return False
        self.last_line = line.number
        indent, rest = len(found["indent"]), found["rest"]
        if member := _MEMBER.match(rest):
            self._begin(line, indent + 2 if member["deeper"] else indent)
        elif found["mark"] == "+" and _END.match(rest):
            self._close(indent)
        else:
            text = rest.removeprefix(" ")
            reader = next((reader for at, reader in reversed(self._open) if at == indent), None)
            if reader and not HEADER.match(text):
                reader.offer(replace(line, text=text))
        return True

    def finish(self) -> Draft:
        """The group as a failure."""
        self.done = True
        for parent, member in reversed(self._members):
            draft = member.finish()
            parent.draft.causes = [draft, *draft.causes, *parent.draft.causes]
            draft.causes = []
        draft = self._top.finish()
        draft.last_line = self.last_line
        return draft

    def _begin(self, line: Line, indent: int) -> None:
        self._close(indent)
        member = Traceback(Draft("exception", "root", line))
        self._members.append((self._open[-1][1] if self._open else self._top, member))
        self._open.append((indent, member))

    def _close(self, indent: int) -> None:
        while len(self._open) > 1 and self._open[-1][0] >= indent:
            self._open.pop()


def group(line: Line) -> GroupReader | None:
    """The group that this line opens."""
    if "Exception Group Traceback (most recent call last)" not in line.text:
        return None
    found = _GUTTER.match(line.text)
    return GroupReader(line, len(found["indent"])) if found else None
