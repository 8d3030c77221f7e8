"""One line of a file as the lines that its processes wrote: wrapping undone, prefixes used, ranks told apart."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trueup.logs.cleaning import clean, unfolded
from trueup.logs.lines import LINE_LIMIT, Line
from trueup.logs.prefixes import Machines, split
from trueup.logs.structured import Fields, fields

_SPOKEN_RANK = re.compile(r"\[(?:PG .{0,80}?)?Rank (?P<rank>\d{1,6})\]|\(rank[ =](?P<rank2>\d{1,6})\)")
_BAR = re.compile(r"\d%\||\d{1,3}%\s*\|")
_BEHIND_BAR = re.compile(
    r"\[rank\d+\]:|\[[IWEF](?:\d{3,4} [\d:.]+)? ?[\w./-]+\.(?:cpp|hpp|cc|cu|py):\d+\]|[WE]\d{4} \d\d:\d\d:\d\d\.\d+ |"
    r"Traceback \(most recent call last\)|terminate called|Fatal Python error|(?:/[\w.-]+)+\.py:\d+: \w*Warning: |"
    r"\b(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): "
)
_NOTHING = Fields("", None, None, None, None)


class Separator:
    """Turns the lines of one file after the other into `Line`s."""

    def __init__(self) -> None:
        self._machines = Machines()
        self._source: str | None = None
        self._rank: int | None = None

    def begin(self, source: str | None, rank: int | None) -> None:
        """The next lines are those of this file, which one rank wrote, if any is given."""
        self._source, self._rank = source, rank

    def stream(self, rank: int | None) -> tuple[str | None, int | None, str]:
        """The stream of a line that has no prefix but perhaps its rank; see `Line.stream`."""
        return (self._source, self._rank if rank is None else rank, "")

    def lines(self, number: int, raw: str) -> Iterator[Line]:
        """What a line of the file says, mostly one line."""
        text = clean(raw)
        if text[:1] == "{" and text[-1:] == "}" and (found := fields(text)):
            for part in found.text.splitlines() or [""]:
                yield self._line(number, clean(part), found)
            return
        for part in unfolded(text):
            yield self._line(number, part)

    def _line(self, number: int, text: str, outer: Fields = _NOTHING) -> Line:
        prefix = self._machines.split(split(_without_bar(text[:LINE_LIMIT])))
        text, rank, local, writer = prefix.text, prefix.rank, prefix.local_rank, prefix.writer
        if rank is None:
            rank = outer.rank if outer.rank is not None else self._rank
        if rank is None and "ank" in text and (spoken := _SPOKEN_RANK.search(text[:300])):
            rank = int(spoken["rank"] or spoken["rank2"])
        if local is not None and rank is None:
            rank, writer = local, f"{writer} local {local}"
        host = prefix.host or outer.host
        return Line(
            number,
            text,
            rank,
            host,
            prefix.time or outer.time,
            prefix.level or outer.level,
            prefix.place,
            f"{writer} {host}" if host else writer,
            prefix.record,
            self._source,
        )


def _without_bar(text: str) -> str:
    """A progress bar does not end its line, so that what another stream prints next stands behind it."""
    bar = _BAR.search(text) if "%" in text else None
    behind = _BEHIND_BAR.search(text, bar.end()) if bar else None
    return text[behind.start() :] if behind else text
