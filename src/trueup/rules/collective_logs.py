"""What watchdogs and debug wrappers print about collectives that did not end."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trueup.rules.log_facts import Mention, mentions
from trueup.schema.log import Log

TIMEOUT = (
    r"(?:\[(?:PG[^\]]*?(?P<group>\d+|default_pg)[^\]]* )?Rank (?P<rank>\d+)\] ?)?"
    r"Watchdog caught collective operation timeout: WorkNCCL\((?P<work>[^\n]*)"
)
FIELD = re.compile(r"(\w+)(?:\(ms\))?=([\w]+)")
BARE = r"Watchdog caught collective operation timeout"


@dataclass(frozen=True)
class Waiting:
    """A rank that waited in vain, as its watchdog tells it."""

    seen: Mention
    rank: int | None
    group: str | None
    sequence: int | None
    operation: str | None
    elements: int | None
    """NumelIn."""


def waiting(log: Log) -> list[Waiting]:
    """All ranks whose watchdog fired, in the order of the log."""
    found = []
    for seen in mentions(log, TIMEOUT):
        fields = dict(FIELD.findall(seen.found["work"]))
        rank = int(seen.found["rank"]) if seen.found["rank"] else seen.failure.rank
        found.append(
            Waiting(
                seen=seen,
                rank=rank,
                group=seen.found["group"],
                sequence=_number(fields.get("SeqNum")),
                operation=fields.get("OpType"),
                elements=_number(fields.get("NumelIn")),
            )
        )
    return found


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None
