"""Failures of a whole job in bounded memory: the same one is counted, of many the first and the last are kept."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from trueup.logs.lines import Draft
from trueup.schema.log import Failure

KEPT_FIRST, KEPT_LAST = 400, 200
"""Different failures kept of each kind."""
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")


@dataclass(slots=True)
class Entry:
    """A failure, and how often and by whom it was printed."""

    failure: Failure
    order: tuple[int, int, int]
    """Where it was printed: file, line, turn."""
    progress: int
    """Routine lines of its source in front of it: tells whether the job went on after it."""
    count: int = 1
    ranks: set[int] = field(default_factory=set)

    def value(self) -> Failure:
        """The failure with its counts."""
        return msgspec.structs.replace(self.failure, count=self.count, ranks=tuple(sorted(self.ranks)))


class Collector:
    """Takes failures in the order printed."""

    def __init__(self) -> None:
        self.progress = 0
        """Routine lines so far; the reader keeps it up to date."""
        self.file = 0
        """Which file of the job is being read."""
        self.dropped = 0
        self._entries: dict[str, OrderedDict[object, Entry]] = {}
        self._last: dict[str, OrderedDict[object, Entry]] = {}
        self._order = 0

    def add(self, draft: Draft) -> Entry:
        """Keeps the failure, or counts it when it was printed before."""
        draft.entry = entry = self._add(draft.failure())
        return entry

    def _add(self, failure: Failure) -> Entry:
        key = _key(failure)
        first = self._entries.setdefault(failure.kind, OrderedDict())
        last = self._last.setdefault(failure.kind, OrderedDict())
        known = first.get(key) or last.get(key)
        if known is not None:
            self._again(known, failure)
            return known
        self._order += 1
        order = (self.file, failure.first_line, self._order)
        entry = Entry(failure, order, self.progress, ranks=set(failure.ranks))
        if len(first) < KEPT_FIRST:
            first[key] = entry
        else:
            last[key] = entry
            if len(last) > KEPT_LAST:
                last.popitem(last=False)
                self.dropped += 1
        return entry

    def entries(self) -> list[Entry]:
        """All that were kept, in the order printed."""
        return sorted(self._all(), key=lambda entry: entry.order)

    def _all(self) -> Iterator[Entry]:
        for kept in (*self._entries.values(), *self._last.values()):
            yield from kept.values()

    def _again(self, known: Entry, failure: Failure) -> None:
        known.count += 1
        known.ranks.update(failure.ranks)
        old = known.failure
        if len(failure.frames) > len(old.frames) and failure.rank == old.rank:
            # A library logged the end of a traceback that the job then printed as a whole.
            known.failure = old = msgspec.structs.replace(failure, time=failure.time or old.time)
        if (old.time is None and failure.time is not None) or (old.rank is None and failure.rank is not None):
            known.failure = msgspec.structs.replace(
                old,
                time=old.time or failure.time,
                rank=failure.rank if old.rank is None else old.rank,
                host=old.host or failure.host,
            )


def _key(failure: Failure) -> object:
    printed = failure.printed[:4000]
    innermost = failure.frames[-1] if failure.frames else None
    if failure.kind in ("collective", "launcher", "killed"):
        # Sequence numbers and ranks in them are what tells a desynchronised rank from the others.
        return (failure.role, failure.rank, failure.host, failure.place, printed)
    return (
        failure.role,
        failure.type,
        _NUMBERS.sub("#", printed),
        innermost and (innermost.file, innermost.line),
        tuple(cause.type for cause in failure.causes),
    )
