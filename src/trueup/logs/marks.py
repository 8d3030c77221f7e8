"""A line that names a failure by itself: the pattern, and what it means. The tables stand beside their subject."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from trueup.logs.lines import Draft, Line
from trueup.schema.log import FailureKind, Role


@dataclass(frozen=True, slots=True)
class Mark:
    """`pattern` is searched behind prefixes and indentation; its groups `rank`, `host`, `type` (`type2`) override."""

    pattern: re.Pattern[str]
    kind: FailureKind
    role: Role = "root"
    type: str | None = None
    continues: bool = False
    """Whether lines that follow may belong to it."""


def mark(
    pattern: str, kind: FailureKind, role: Role = "root", type: str | None = None, *, continues: bool = False
) -> Mark:
    return Mark(re.compile(pattern), kind, role, type, continues)


def first(marks: Iterable[Mark], line: Line) -> tuple[Draft, Mark] | None:
    """The failure that the first fitting mark makes of the line."""
    text = line.text.strip()
    for each in marks:
        found = each.pattern.search(text)
        if found:
            values = found.groupdict()
            draft = Draft(
                each.kind,
                each.role,
                line,
                type=values.get("type") or values.get("type2") or each.type,
                message=[line.text.strip()],
            )
            if values.get("rank"):
                draft.rank = int(values["rank"])
            draft.host = values.get("host")
            return draft, each
    return None
