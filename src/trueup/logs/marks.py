"""A line that names a failure by itself: the pattern, and what it means. The tables stand beside their subject."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from trueup.logs.lines import Draft, Line
from trueup.schema.log import FailureKind, Role

_Groups = dict[str, str | None]


@dataclass(frozen=True, slots=True)
class Mark:
    """`pattern` is searched behind prefixes and indentation; its groups `rank`, `host`, `type` (`type2`) override."""

    pattern: re.Pattern[str]
    kind: FailureKind
    role: Role = "root"
    type: str | None = None
    continues: bool = False
    """Whether lines that follow may belong to it."""

    def draft(self, line: Line, groups: _Groups) -> Draft:
        """The failure that `line` names."""
        return Draft(
            self.kind,
            self.role,
            line,
            type=groups.get("type") or groups.get("type2") or self.type,
            message=[line.text.strip()],
            rank=int(groups["rank"] or 0) if groups.get("rank") else None,
            host=groups.get("host"),
        )


def mark(
    pattern: str, kind: FailureKind, role: Role = "root", type: str | None = None, *, continues: bool = False
) -> Mark:
    return Mark(re.compile(pattern), kind, role, type, continues)


class Marks:
    """Marks in the order in which they are tried. What a text means is remembered: ranks repeat each other."""

    def __init__(self, *marks: Mark) -> None:
        # Searching for an anchored pattern tries every position of the text, matching only the first.
        tries = [
            (each, each.pattern.match if _is_anchored(each.pattern.pattern) else each.pattern.search) for each in marks
        ]

        @lru_cache(maxsize=4096)
        def meaning(text: str) -> tuple[Mark, _Groups] | None:
            for each, try_it in tries:
                if found := try_it(text):
                    return each, found.groupdict()
            return None

        self._meaning = meaning

    def first(self, line: Line) -> tuple[Draft, Mark] | None:
        """The failure that the first fitting mark makes of the line."""
        found = self._meaning(line.text.strip())
        return (found[0].draft(line, found[1]), found[0]) if found else None

    def names(self, line: Line) -> Mark | None:
        """The first fitting mark."""
        found = self._meaning(line.text.strip())
        return found[0] if found else None


def _is_anchored(pattern: str) -> bool:
    """True when each alternative of the pattern begins at the beginning."""
    depth, in_class, escaped, start = 0, False, False, True
    for letter in pattern:
        if start and letter != "^":
            return False
        start = False
        if escaped:
            escaped = False
        elif letter == "\\":
            escaped = True
        elif in_class:
            in_class = letter != "]"
        elif letter == "[":
            in_class = True
        elif letter in "()":
            depth += 1 if letter == "(" else -1
        elif letter == "|" and depth == 0:
            start = True
    return True
