"""What watchdogs and debug wrappers print about collectives that did not end."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trueup.rules.log_facts import Mention, mention, mentions
from trueup.schema.log import Log

TIMEOUT = (
    r"(?:\[(?:PG[^\]]*?(?P<group>\d+|default_pg)[^\]]* )?Rank (?P<rank>\d+)\] ?)?"
    r"Watchdog caught collective operation timeout: WorkNCCL\((?P<work>[^\n]*)"
)
FIELD = re.compile(r"(\w+)(?:\(ms\))?=([\w]+)")
BARE = r"Watchdog caught collective operation timeout"

REPORT = r"(?:ranks that caused the desync are:|\[[\d, ]+\] (?:finished|joined but didnt finish) collective #)"
BEHIND = re.compile(r"\[(?P<ranks>[\d, ]+)\] finished collective #\d+, but didnt join collective #(?P<number>\d+)")
UNFINISHED = re.compile(r"\[(?P<ranks>[\d, ]+)\] joined but didnt finish collective #(?P<number>\d+)")
STARTED = re.compile(r"#(?P<number>\d+) started ranks:(?P<list>(?:\n\[[\d, ]+\] \w+)+)")
NAMED = re.compile(r"\n\[(?P<ranks>[\d, ]+)\] (?P<operation>\w+)")


@dataclass(frozen=True)
class Standing:
    """Ranks at one collective."""

    ranks: tuple[int, ...]
    number: int


@dataclass(frozen=True)
class Desync:
    """What torch prints with TORCH_NCCL_DESYNC_DEBUG=1: which ranks are behind, and what each started last.

    https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/TraceUtils.h
    """

    seen: Mention
    behind: Standing | None
    """Ranks that did not join a collective, and its number."""
    unfinished: Standing | None
    """Ranks that joined the earliest unfinished collective, and its number."""
    started: tuple[tuple[int, dict[str, tuple[int, ...]]], ...]
    """Number of a collective → operation → the ranks that started it under this number."""

    @property
    def different(self) -> tuple[int, dict[str, tuple[int, ...]]] | None:
        """The collective that ranks started as different operations."""
        return next((each for each in self.started if len(each[1]) > 1), None)


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


def desync(log: Log) -> Desync | None:
    """The first desync report of a log, which may be cut to some of its lines."""
    seen = mention(log, REPORT)
    if seen is None:
        return None
    text = seen.part.said
    started = tuple(
        (int(each["number"]), {one["operation"]: _ranks(one["ranks"]) for one in NAMED.finditer(each["list"])})
        for each in STARTED.finditer(text)
    )
    return Desync(seen, _standing(BEHIND.search(text)), _standing(UNFINISHED.search(text)), started)


def in_words(ranks: tuple[int, ...]) -> str:
    """`rank 3`, `ranks 0, 1`; of many the first eight."""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks[:8]))}{', …' if len(ranks) > 8 else ''}"


def _standing(found: re.Match[str] | None) -> Standing | None:
    return Standing(_ranks(found["ranks"]), int(found["number"])) if found else None


def _ranks(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d+", text))


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
