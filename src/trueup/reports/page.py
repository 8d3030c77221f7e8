"""A page of text: spans with a style, lines that stay whole, paragraphs that are wrapped.

What all text reports need of a console, in a millisecond: tables, which only the report of a run has, are rich's.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

STYLES = {
    "": "",
    "bold": "1",
    "error": "1;31",
    "warning": "1;33",
    "note": "1;36",
    "added": "32",
    "removed": "31",
}
"""Name → parameters of "select graphic rendition" (ECMA-48, 8.3.117)."""

WORD = re.compile(r"\s*\S+")
Span = str | tuple[str, str]
"""Text, or text and the name of its style."""


class Page:
    """Lines of at most `width` columns, but for those that are made to be copied."""

    def __init__(self, width: int, colour: bool) -> None:
        self.width = width
        self.colour = colour
        self._lines: list[str] = []

    def line(self, *spans: Span) -> None:
        """One line, however long: it is never broken."""
        self._lines.append("".join(self._styled(*((span, "") if isinstance(span, str) else span)) for span in spans))

    def blank(self) -> None:
        """An empty line."""
        self._lines.append("")

    def paragraph(self, text: str, label: str = "", indent: int = 0, style: str = "") -> None:
        """Wrapped text, `indent` columns in; `label`, in its style, stands in the margin of the first line."""
        margin: Span = (label.ljust(indent), style)
        for part in wrapped(text, max(self.width - indent, 1)):
            self.line(margin, part)
            margin = " " * indent

    def block(self, text: str) -> None:
        """Lines that were laid out elsewhere."""
        self._lines.extend(text.splitlines())

    def text(self) -> str:
        """The whole page, without blanks at the ends of lines."""
        return "\n".join(line.rstrip() for line in self._lines) + "\n"

    def _styled(self, text: str, style: str) -> str:
        code = STYLES[style]
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and code and text else text


def wrapped(text: str, columns: int) -> Iterator[str]:
    """The lines of `text`, broken at white space; a word that is longer than a line is folded."""
    line, used = "", 0
    for word in WORD.findall(text):
        taken = columns_of(word)
        if line and used + taken > columns:
            yield line
            line, used = "", 0
        if not line:
            word = word.lstrip()
            *full, word = folded(word, columns)
            yield from full
            taken = columns_of(word)
        line, used = line + word, used + taken
    if line:
        yield line


def folded(word: str, columns: int) -> Iterator[str]:
    """The word in pieces of at most `columns` columns, and at least one character; the last piece is what is left."""
    piece, used = "", 0
    for character in word if columns_of(word) > columns else ():
        taken = columns_of(character)
        if piece and used + taken > columns:
            yield piece
            piece, used = "", 0
        piece, used = piece + character, used + taken
    yield piece or word


def columns_of(text: str) -> int:
    """How many columns of a terminal it takes: wide characters two, combining ones none (Unicode annex 11)."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
