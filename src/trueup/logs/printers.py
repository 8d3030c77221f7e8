"""Tracebacks as rich and IPython print them."""

from __future__ import annotations

import re

import msgspec

from trueup.logs import frames
from trueup.logs.continuations import add_code
from trueup.logs.exceptions import exception_line
from trueup.logs.lines import Draft, Line
from trueup.logs.tracebacks import ANNOTATION, HEADER, Traceback

NOTEBOOK = re.compile(r"^(?P<type>[A-Za-z_][\w.]*) {2,}$")
"""What stands before the words of the header in a notebook."""
_PART_OF_PATH = re.compile(r"[/~<A-Za-z]:?[\w./\\-]*$")
_NOTEBOOK_LINES = 5000


class RichTraceback(Traceback):
    """Frames in a box; the exception stands below it."""

    _partial = ""

    def frame_line(self, line: Line, text: str) -> bool:
        """Takes a line of the box or, below it, the one that names the exception."""
        if not ANNOTATION.match(text):
            return super().frame_line(line, text)
        inside = text.strip().strip("│┃").strip()
        if code := frames.pointer(inside):
            add_code(self.draft.frames, code)
        elif frame := frames.rich_frame(inside) or frames.rich_frame(self._partial + inside):
            self.draft.frames.append(frame)
            self._partial = ""
        else:  # a long path is broken over two lines
            self._partial = inside if _PART_OF_PATH.match(inside) else ""
        return True


class NotebookTraceback(Traceback):
    """Frames with some lines of source around an arrow; the header names the exception in advance."""

    def __init__(self, draft: Draft, announced: str) -> None:
        super().__init__(draft)
        self._announced = announced.rpartition(".")[2]

    def frame_line(self, line: Line, text: str) -> bool:
        """Takes all lines up to the one that names the announced exception."""
        found = self.draft.frames
        if (header := HEADER.match(text)) and (named := NOTEBOOK.match(header["before"])):
            self._announced = named["type"].rpartition(".")[2]
        elif arrow := frames.arrow(text.strip()):
            if found:
                found[-1] = msgspec.structs.replace(found[-1], line=found[-1].line or arrow[0], code=arrow[1])
        elif frame := frames.notebook_frame(text) or frames.python_frame(text):
            found.append(frame)
        elif (exception := exception_line(text, expected=True)) and exception[0].rpartition(".")[2] == self._announced:
            self.name(exception, line)
        return line.number - self.draft.line.number < _NOTEBOOK_LINES
