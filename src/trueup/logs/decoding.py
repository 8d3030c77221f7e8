"""Bytes of any encoding as blocks of whole lines in UTF-8, and one line as text."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import BinaryIO

from trueup.logs.sources import DAMAGED

BLOCK = 1 << 20
"""Small enough for the cache of a core: blocks of 4 MB are read a fifth slower."""
LONGEST_LINE = 8 << 20
"""A longer line is cut: progress bars that only return the carriage make one line of a whole log."""

_UTF16 = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def blocks(stream: BinaryIO) -> Iterator[bytes]:
    """The text in UTF-8, cut at line ends. Ends early, without an error, where the file is damaged."""
    first = _line_end(stream, _some(stream))
    encoding = _wide_encoding(first)
    if encoding is not None:
        yield from _narrowed(stream, first, encoding)
        return
    block = first.removeprefix(codecs.BOM_UTF8)
    while block:
        yield block
        block = _line_end(stream, _some(stream))


def text_of(raw: bytes) -> str:
    """One line as text: UTF-8, or Latin-1 when nothing in it is valid UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("utf-8", "replace")
        valid = any(character > "\x7f" and character != "�" for character in text)
        return text if valid else raw.decode("latin-1")


def _some(stream: BinaryIO) -> bytes:
    try:
        return stream.read(BLOCK)
    except DAMAGED:
        return b""


def _line_end(stream: BinaryIO, block: bytes) -> bytes:
    """The block with the rest of its last line."""
    if not block or block.endswith(b"\n"):
        return block
    try:
        return block + stream.readline(LONGEST_LINE)
    except DAMAGED:
        return block


def _narrowed(stream: BinaryIO, first: bytes, encoding: str) -> Iterator[bytes]:
    """UTF-16 as UTF-8, cut at line ends."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    text = decoder.decode(first).removeprefix("\ufeff")
    while more := _some(stream):
        cut = text.rfind("\n") + 1
        if cut or len(text) > LONGEST_LINE:
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
