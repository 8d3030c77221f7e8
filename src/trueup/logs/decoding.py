"""Bytes of any encoding as blocks of whole lines in UTF-8, and one line as text."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

from trueup.logs.sources import DAMAGED

BLOCK = 1 << 20
"""Small enough for the cache of a core: blocks of 4 MB are read a fifth slower."""
LONGEST_LINE = 8 << 20
"""A longer line is cut: progress bars that only return the carriage make one line of a whole log."""

_UTF16 = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


LONG_LINE = 1 << 20
"""Of a longer line only the start is taken for the start of a message, and what ends it: see `_ending_apart`."""
ENDING = 4000
_EXCEPTION = re.compile(rb"(?<![\w.])(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Za-z_]\w{0,80}(?:Error|Exception): ")

TOO_LONG = "holds a line of more than 1 MB; a failure was looked for at its start and at its end only"
DAMAGE = "damaged or cut off: what stands behind the damage could not be read"
NO_TEXT = "no text, by the bytes that it begins with"
_CONTROLS = bytes((*range(1, 8), *range(14, 27), *range(28, 32)))
"""What no text holds: the controls without tabs, line ends, backspace and escape; a copied log may hold zeros."""


def blocks(stream: BinaryIO, note: Callable[[str], object] = str) -> Iterator[bytes]:
    """The text in UTF-8, cut at line ends. Ends early, without an error, where the file is damaged; `note` is told."""
    source = _Source(stream, note)
    first = source.block()
    encoding = _wide_encoding(first)
    if encoding is not None:
        yield from _narrowed(source, first, encoding)
        return
    if _is_binary(first):
        note(NO_TEXT)
    block = first.removeprefix(codecs.BOM_UTF8)
    while block:
        yield block
        block = source.block()


def text_of(raw: bytes) -> str:
    """One line as text: UTF-8, or Latin-1 when nothing in it is valid UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("utf-8", "replace")
        valid = any(character > "\x7f" and character != "�" for character in text)
        return text if valid else raw.decode("latin-1")


class _Source:
    """A stream that ends where it is damaged."""

    def __init__(self, stream: BinaryIO, note: Callable[[str], object]) -> None:
        self._stream = cast(io.BufferedReader, stream)
        self._note = note
        self._ended = False
        self._held = b""
        """The end of a piece of a line that was cut, read with the next piece: a message may begin in it."""
        self._long = False

    def some(self) -> bytes:
        """BLOCK bytes, fewer at the end. Read piece by piece: one large read loses what came before the damage."""
        pieces, missing = [], BLOCK
        while missing and not self._ended:
            try:
                piece = self._stream.read1(missing)
            except DAMAGED:
                self._damaged()
                break
            self._ended = not piece
            pieces.append(piece)
            missing -= len(piece)
        return b"".join(pieces)

    def block(self) -> bytes:
        """As many, with the rest of the last line."""
        continued, held, self._held = bool(self._held), self._held, b""
        block, rest = held + self.some(), b""
        if not self._ended and not block.endswith(b"\n"):
            try:
                rest = self._stream.readline(LONGEST_LINE)
            except DAMAGED:
                self._damaged()
            if len(rest) == LONGEST_LINE and not rest.endswith(b"\n"):
                rest, self._held = rest[:-ENDING], rest[-ENDING:]
        if len(rest) > LONG_LINE and max(map(len, rest.split(b"\r"))) > LONG_LINE:
            self.found_long_line()
            if block[block.rfind(b"\n") + 1 :][:1] != b"{":  # a record is read whole
                rest = _ending_apart(rest)
        block += rest
        if continued and (end := block.find(b"\n")) != -1:
            return _ending_apart(block[:end]) + block[end:]
        return _ending_apart(block) if continued and not self._held else block

    def found_long_line(self) -> None:
        if not self._long:
            self._long = True
            self._note(TOO_LONG)

    def _damaged(self) -> None:
        self._ended = True
        self._note(DAMAGE)


def _ending_apart(line: bytes) -> bytes:
    """A long line with the last exception that its end names as a piece of its own, as after a carriage return."""
    at = max((found.start() for found in _EXCEPTION.finditer(line, max(0, len(line) - ENDING))), default=0)
    return line[:at] + b"\r" + line[at:] if at and line[at - 1 : at] not in (b"\r", b"\n") else line


def _is_binary(first: bytes) -> bool:
    sample = first[:65536].replace(b"\x00", b"")
    return len(sample) - len(sample.translate(None, _CONTROLS)) > len(sample) * 0.05 or bool(first and not sample)


def _narrowed(source: _Source, first: bytes, encoding: str) -> Iterator[bytes]:
    """UTF-16 as UTF-8, cut at line ends."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    text = decoder.decode(first).removeprefix("\ufeff")
    while more := source.some():
        cut = text.rfind("\n") + 1
        if cut or len(text) > LONGEST_LINE:
            if not cut:
                source.found_long_line()
            cut = cut or len(text)
            yield text[:cut].encode("utf-8", "replace")
            text = text[cut:]
        text += decoder.decode(more)
    text += decoder.decode(b"", final=True)
    if text:
        yield text.encode("utf-8", "replace")


def _wide_encoding(first: bytes) -> str | None:
    """UTF-16 by its mark or, without one, by the zeros beside ASCII letters."""
    for mark, encoding in _UTF16:
        if first.startswith(mark):
            return encoding
    sample = first[:4096]
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    if len(sample) >= 8 and max(even, odd) > len(sample) * 0.4 and min(even, odd) < len(sample) * 0.02:
        return "utf-16-le" if odd > even else "utf-16-be"
    return None
