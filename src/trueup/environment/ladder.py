"""The torch releases that export a set of symbols: what a compiled extension was built for, read from what it asks.

A file name says what somebody meant to build; the symbols say what was built. The table is data, made from official
wheels by `scripts/symbol_ladder.py`.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from pathlib import Path

import msgspec

TABLE = Path(__file__).with_name("data") / "ladder.json"


class Ladder(msgspec.Struct, frozen=True):
    made: str
    by: str
    releases: tuple[str, ...]
    """In order; the last one is the newest that was read."""
    wheels: tuple[str, ...]
    spans: dict[str, tuple[str, ...]]
    """`2.1-2.6` or `2.1,2.7-2.9` → the symbols that exactly these releases export. What all export is not listed."""

    def releases_with(self, symbols: Collection[str]) -> list[str]:
        """Releases that export all of those `symbols` that the table knows."""
        asked = frozenset(symbols)
        possible = set(self.releases)
        for span, names in self.spans.items():
            if not asked.isdisjoint(names):
                possible &= self._expanded(span)
        return [release for release in self.releases if release in possible]

    def built_for(self, symbols: Collection[str]) -> str | None:
        """The range of `releases_with` as a version specifier: `>=2.8,<2.10`, open at an end of the table.

        None when every release fits, or none does (a development build, a private fork)."""
        fitting = self.releases_with(symbols)
        if not fitting or len(fitting) == len(self.releases):
            return None
        first, last = self.releases.index(fitting[0]), self.releases.index(fitting[-1])
        bounds = [f">={fitting[0]}"] if first else []
        if last + 1 < len(self.releases):
            bounds.append(f"<{self.releases[last + 1]}")
        missing = (release for release in self.releases[first:last] if release not in fitting)
        return ",".join([*bounds, *(f"!={release}.*" for release in missing)])

    def in_words(self, symbols: Collection[str]) -> str | None:
        """The same for people: `torch 2.3 to 2.7`, `torch 2.8 or newer`; None also where releases between lack one."""
        fitting = self.releases_with(symbols)
        if not fitting or len(fitting) == len(self.releases):
            return None
        first, last = self.releases.index(fitting[0]), self.releases.index(fitting[-1])
        if last - first + 1 != len(fitting):
            return None
        if last + 1 == len(self.releases):
            return f"torch {fitting[0]} or newer"
        if first == 0:
            return f"torch {fitting[-1]} or older"
        return f"torch {fitting[0]}" + (f" to {fitting[-1]}" if len(fitting) > 1 else "")

    def _expanded(self, span: str) -> set[str]:
        found: set[str] = set()
        for run in span.split(","):
            first, _, last = run.partition("-")
            start, stop = self.releases.index(first), self.releases.index(last or first)
            found.update(self.releases[start : stop + 1])
        return found


@cache
def ladder() -> Ladder:
    """The table of this version of trueup."""
    return msgspec.json.decode(TABLE.read_bytes(), type=Ladder)
