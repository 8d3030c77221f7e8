"""Finds the few lines of a large log that are worth reading, at the speed at which bytes can be compared.

Most lines of a log are routine: they differ in numbers only. The letters that remain of a line when everything else is
deleted are its shape. A shape is read once; when it carried nothing, all lines of that shape are passed over. So the
cost of a line is one translation, one split and one look-up, all within the interpreter's own C code.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate

from trueup.logs.decoding import text_of
from trueup.logs.lines import Draft
from trueup.logs.messages import STRONG_WORDS, WORDS
from trueup.logs.parsing import Parser
from trueup.logs.ranks import Printed
from trueup.logs.versions import HINTS

SHORT = 200
"""Lines of a text that people paste: each of its lines is read and kept."""

# Hexadecimal digits are deleted with the numbers, since identifiers made of them differ from line to line.
_KEPT = frozenset(b"ghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ\n\r")
_DELETED = bytes(byte for byte in range(256) if byte not in _KEPT)
_ONE_LINE_END = bytes.maketrans(b"\r", b"\n")

_SHAPES_LIMIT, _MESSAGES_LIMIT = 100_000, 5_000
_COUNT_ONLY = 50
"""Repeats of a message after which only its number is kept up."""
_FREE_TEXT = 8_000
"""Different shapes after which the log is taken for free text: samples of a model, documents."""
_MARKS = tuple(word.encode() for word in (*WORDS, *HINTS, 'file "', "unsupported:", ".exc."))
_STRONG_MARKS = tuple(word.encode() for word in STRONG_WORDS)


class Scanner:
    """Reads the blocks of one job, file after file."""

    def __init__(self, parser: Parser) -> None:
        self.lines = 0
        self.size = 0
        self.printed = Printed()
        self._parser = parser
        self._routine: set[bytes] = {b""}
        self._messages: dict[bytes, Draft] = {}
        self._shapes = 0
        self._number = 0
        """Lines of the current file so far."""

    def scan(self, blocks: Iterable[bytes]) -> None:
        """Reads one file."""
        self._number = 0
        for block in blocks:
            self.size += len(block)
            self.printed.look(block)
            self._block(block.replace(b"\r\n", b"\n") if b"\r\n" in block else block)
        self._parser.end()
        self.lines += self._number

    def _block(self, block: bytes) -> None:
        if not block.endswith((b"\n", b"\r")):
            block += b"\n"
        if self._shapes < _FREE_TEXT:
            count, notable = self._with_unknown_shapes(block)
        else:
            count, notable = _with_strong_words(block)
        short = self.lines + self._number < SHORT
        if short or notable or self._parser.wants(self._number + 1):
            self._read(block, count, notable)
        else:
            self._parser.collector.progress += count
        self._number += count if b"\r" not in block else block.count(b"\n") + (not block.endswith(b"\n"))

    def _with_unknown_shapes(self, block: bytes) -> tuple[int, list[int]]:
        """How many lines the block has, and which are not known to be routine."""
        shapes = block.translate(_ONE_LINE_END, _DELETED).split(b"\n")
        shapes.pop()  # behind the last line end
        routine = self._routine
        if routine.issuperset(shapes):
            return len(shapes), []
        return len(shapes), [at for at, shape in enumerate(shapes) if shape not in routine]

    def _read(self, block: bytes, count: int, notable: list[int]) -> None:
        """Reads the notable lines, and all lines while a failure is open or the text is short."""
        parser, collector = self._parser, self._parser.collector
        lines = block.translate(_ONE_LINE_END).split(b"\n")
        start = self._number + 1
        numbers = _numbers(block, start) if b"\r" in block else range(start, start + len(lines))
        head = max(0, SHORT - self.lines - self._number)
        pending = iter(notable)
        following = next(pending, count)
        at = 0
        while at < count:
            while following < at:
                following = next(pending, count)
            if at >= head and not parser.wants(numbers[at]):
                collector.progress += following - at
                at = following
                if at == count:
                    break
            whole = at < head or parser.wants(numbers[at])
            if not self._line(numbers[at], lines[at], whole=whole):
                collector.progress += 1
            at += 1

    def _line(self, number: int, raw: bytes, *, whole: bool) -> bool:
        """False for a line that carried nothing. `whole`: it is read whatever its shape: a failure may be open."""
        parser = self._parser
        if whole and parser.frame(number, raw):
            return True
        shape = raw.translate(None, _DELETED)
        if not whole:
            known = self._messages.get(shape)
            if known is not None and known.entry is not None and known.entry.count > _COUNT_ONLY:
                known.entry.count += 1
                return True
            if shape in self._routine:
                return False
            self._shapes += 1
            lowered = raw.lower()
            if self._shapes < _FREE_TEXT and not any(mark in lowered for mark in _MARKS):
                return self._learn(shape)
        if not parser.feed(number, text_of(raw)):
            return self._learn(shape)
        if parser.last is not None and len(self._messages) < _MESSAGES_LIMIT:
            self._messages[shape] = parser.last
        return True

    def _learn(self, shape: bytes) -> bool:
        if len(self._routine) < _SHAPES_LIMIT:
            self._routine.add(shape)
        return False


def _with_strong_words(block: bytes) -> tuple[int, list[int]]:
    """How many lines the block has, and which have a word of `STRONG_WORDS`."""
    lowered = block.translate(_ONE_LINE_END).lower()
    ends = [0, *accumulate(len(line) + 1 for line in lowered.split(b"\n"))]
    found: set[int] = set()
    for mark in _STRONG_MARKS:
        at = lowered.find(mark)
        while at >= 0:
            line = bisect_right(ends, at) - 1
            found.add(line)
            at = lowered.find(mark, ends[line + 1])
    return len(ends) - 2, sorted(found)


def _numbers(block: bytes, start: int) -> list[int]:
    """Line number of each piece when carriage returns cut lines into pieces."""
    numbers: list[int] = []
    for number, line in enumerate(block.split(b"\n"), start):
        numbers.extend([number] * (line.count(b"\r") + 1))
    return numbers
