"""The message of a failure while its lines arrive: which line still belongs to it, and what it quotes."""

from __future__ import annotations

import re
from itertools import pairwise

import msgspec

from trueup.logs import frames
from trueup.logs.exceptions import ADVICE, ASYNCHRONOUS, begins_something_else, continues_message, exception_line
from trueup.logs.lines import Draft, Line
from trueup.logs.messages import is_routine
from trueup.schema.log import Frame

_USER_CODE = re.compile(
    r"(?:from user code|User [Ss]tack(?: trace)?|User code traceback|Graph break: from user code at).*:$"
)
_OPEN_ENDS = (":", ",", "(", "[", "{", "\\")
_LINES = 400
_INDENTED_LINES = 40
_PLAIN_LINES = 12
"""Unindented lines without a blank line between that a message may have."""
_BLANK_LINES = 6


class Continuation:
    """Adds to the message of `draft` the lines that belong to it."""

    def __init__(self, draft: Draft, *, only_indented: bool = False) -> None:
        self.draft = draft
        self.only_indented = only_indented
        self.advice: list[Line] = []
        """Advice that stood in the message and is left out of it."""
        self.last_line = draft.line.number
        self._blank = 0
        self._plain = 0
        self._quotes = False

    @property
    def unfinished(self) -> bool:
        """True when the message so far announces more."""
        return bool(self.draft.message) and self.draft.message[-1].rstrip().endswith(_OPEN_ENDS)

    def take(self, line: Line, text: str) -> bool:
        """Adds the line to the message, or to the frames that it quotes. False when the message is over."""
        taken = self._take(line, text)
        if taken:
            self.last_line = line.number
        return taken

    def resume(self, line: int) -> None:
        """A traceback inside the message ended on this line."""
        self._blank, self.last_line = 0, line

    def finish(self) -> None:
        """Draws what the whole message tells."""
        if any(ASYNCHRONOUS.search(text) for text in self.draft.message):
            self.draft.asynchronous = True
        if not self.draft.causes:
            self.draft.causes = _raised_within(self.draft)

    def _take(self, line: Line, text: str) -> bool:
        bare = text.strip()
        if not bare or bare == '"""':
            self._blank += not bare
            self._quotes = False
            self.draft.message.append("")
            return self._blank < _BLANK_LINES and not self.only_indented
        if self._source_of_warning(text) or self._quoted_frame(text):
            return True
        if frame := frames.native_frame(text):
            if len(self.draft.native_frames) < 100:
                self.draft.native_frames.append(frame)
            return True
        if "raceback (most recent call last)" in text or frames.python_frame(text):
            return False
        if ADVICE.match(bare):
            self.advice.append(line)
            self._blank = 0
            return True
        if not self._continues(line, text):
            return False
        self._blank = 0
        self._quotes = bool(_USER_CODE.match(bare)) or (self._quotes and text[0].isspace())
        self.draft.message.append(text)
        return True

    def _continues(self, line: Line, text: str) -> bool:
        if len(self.draft.message) > _LINES:
            return False
        if continues_message(text):
            return True
        adjacent = line.number <= self.last_line + 1
        bare_and_next = text[0].isspace() and line.header == (None, None) and adjacent
        if begins_something_else(text) or (line.header != self.draft.line.header and not bare_and_next):
            return False
        if self.only_indented:
            deeper = _indentation(text) > _indentation(self.draft.line.text)
            return (deeper or self.unfinished) and not self._blank and len(self.draft.message) <= _INDENTED_LINES
        if text[0].isspace():
            return self._blank < 3
        if self._blank or not adjacent or (exception_line(text) and not self.unfinished):
            return False
        self._plain += 1
        return self._plain <= _PLAIN_LINES and not is_routine(text)

    def _source_of_warning(self, text: str) -> bool:
        """Below a warning stands the source line that issued it."""
        found = self.draft.frames
        if not (self.only_indented and found and found[-1].code is None and text[:2] == "  "):
            return False
        add_code(found, text)
        return True

    def _quoted_frame(self, text: str) -> bool:
        """Frames in a message are the user's code that Dynamo quotes, when it says so."""
        if not self._quotes:
            return False
        found = self.draft.user_frames
        if frame := frames.python_frame(text):
            found.append(frame)
            return True
        if found and text[0].isspace():
            if not frames.CARETS.match(text):
                add_code(found, text)
            return True
        return False


def add_code(found: list[Frame], text: str) -> None:
    """Gives the last frame its source line, once."""
    if found and found[-1].code is None:
        found[-1] = msgspec.structs.replace(found[-1], code=text.strip()[:500])


def _indentation(text: str) -> int:
    return len(text) - len(text.lstrip())


def _raised_within(draft: Draft) -> list[Draft]:
    """`backend='inductor' raised:` is followed by the exception that the backend raised, without its frames."""
    for before, text in pairwise(draft.message):
        named = exception_line(text) if before.endswith("raised:") else None
        if named:
            return [Draft("exception", draft.role, draft.line, type=named[0], message=[named[1]])]
    return []
