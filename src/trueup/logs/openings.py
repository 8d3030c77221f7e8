"""Lines on which a traceback begins."""

from __future__ import annotations

from dataclasses import replace

from trueup.logs.exceptions import exception_line, is_advice
from trueup.logs.lines import Draft, Line
from trueup.logs.printers import NOTEBOOK, NotebookTraceback, RichTraceback
from trueup.logs.tracebacks import HEADER, Traceback
from trueup.schema.log import Frame


def header(line: Line) -> Traceback | None:
    """The traceback that this line opens with the words `most recent call last`."""
    if "raceback (most recent call last)" not in line.text:
        return None
    found = HEADER.match(line.text)
    if not found:
        return None
    before = found["before"]
    draft = Draft("exception", "root", line)
    if "╭" in before or "─" in before:
        return RichTraceback(draft, margin=before[: len(before) - len(before.lstrip())])
    if named := NOTEBOOK.match(before):
        return NotebookTraceback(draft, named["type"])
    return Traceback(draft, margin=before if not before.strip(" >|│#*\t") else "")


def before_header(line: Line) -> Line | None:
    """What a program said on the line on which its traceback begins."""
    found = HEADER.match(line.text)
    if not found or NOTEBOOK.match(found["before"]) or not any(letter.isalpha() for letter in found["before"]):
        return None
    return replace(line, text=found["before"].rstrip())


def from_frame(line: Line, frame: Frame) -> Traceback:
    """A traceback whose head is cut off or was never printed."""
    margin = line.text[: len(line.text) - len(line.text.lstrip())]
    draft = Draft("exception", "root", line, frames=[frame])
    return Traceback(draft, margin=margin[:-2])


def from_exception(line: Line) -> Draft | None:
    """An exception that is named without any frame in front of it."""
    named = exception_line(line.text.strip())
    if not named or is_advice(line.text):
        return None
    return Draft("exception", "root", line, type=named[0], message=[named[1]])
