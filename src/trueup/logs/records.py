"""A log record of several lines, each of which carries the prefix again (torch, glog)."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from trueup.logs import frames
from trueup.logs.exceptions import is_advice
from trueup.logs.lines import Draft, Line
from trueup.logs.messages import message
from trueup.logs.prefixes import without_tags

LINES_LIMIT = 500


class Record:
    """The lines of one record as they come in."""

    def __init__(self, owner: object) -> None:
        self.owner = owner
        """Stream and process: a process writes one record after the other."""
        self.last_line = 0
        self._lines: list[Line] = []

    def add(self, line: Line) -> None:
        """Takes the next line."""
        self.last_line = line.number
        if len(self._lines) < LINES_LIMIT:
            self._lines.append(line)

    def lines(self) -> list[Line]:
        """Its lines; the tags of Dynamo stay on the first only."""
        first, *rest = self._lines
        lines = [first, *(replace(line, text=without_tags(line.text)) for line in rest)]
        while len(lines) > 1 and not without_tags(lines[0].text).strip(" *"):
            lines.pop(0)
        return lines

    def message(self) -> Draft:
        """The record as one message; frames in it are the user's code that it speaks about."""
        lines = [line for line in self.lines() if not is_advice(line.text)] or self.lines()
        draft = message(lines[0])
        draft.message = []
        draft.last_line = self.last_line
        for line in lines:
            text = line.text
            if frame := frames.python_frame(text):
                draft.user_frames.append(frame)
            elif draft.user_frames and text[:4].isspace() and draft.message[-1:] != [""]:
                last = draft.user_frames[-1]
                if last.code is None and not frames.CARETS.match(text):
                    draft.user_frames[-1] = msgspec.structs.replace(last, code=text.strip()[:500])
                elif not frames.CARETS.match(text):
                    draft.message.append(text)
            else:
                draft.message.append(text)
        return draft
