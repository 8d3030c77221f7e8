"""A failure as the texts that rules look through: what it and its causes say, and what their tracebacks show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache, wraps
from typing import TypeVar

import msgspec

from trueup.rules.log_text import normal
from trueup.schema.log import Failure, Frame, Log

LONGEST_LINE = 300
Answer = TypeVar("Answer")


class Part(msgspec.Struct, frozen=True, dict=True):
    """A failure, or one that it was raised from."""

    failure: Failure

    @cached_property
    def said(self) -> str:
        """Type and message, in the form in which texts are compared."""
        return normal(printed(self.failure))

    @cached_property
    def shown(self) -> str:
        """The source lines of the traceback and those that the message quotes, in the same form."""
        quoted = (*self.failure.frames, *self.failure.user_frames)
        return normal("\n".join(frame.code for frame in quoted if frame.code))

    def line_of(self, start: int) -> tuple[str, int]:
        """The printed line that holds position `start` of `said`, and its number in the log."""
        lines = [line for line in printed(self.failure).splitlines() if line.strip()] or [""]
        index = min(self.said.count("\n", 0, start), len(lines) - 1)
        if self.failure.frames:  # the message stands below its traceback
            number = max(self.failure.last_line - (len(lines) - 1 - index), self.failure.first_line)
        else:
            number = self.failure.first_line + index
        return shortened(lines[index]), number


def parts(failure: Failure) -> Iterator[Part]:
    """The failure first, then what it was raised from."""
    yield Part(failure)
    for cause in failure.causes:
        yield from parts(cause)


class _Same:
    """A log by its identity, since comparing logs by value costs more than what is kept."""

    def __init__(self, log: Log) -> None:
        self.log = log

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.log is self.log

    def __hash__(self) -> int:
        return id(self.log)


def once_per_log(function: Callable[[Log], Answer]) -> Callable[[Log], Answer]:
    """Keeps the answer for the last log: what several rules ask of the same log is found once."""

    @lru_cache(maxsize=1)
    def kept(same: _Same) -> Answer:
        return function(same.log)

    @wraps(function)
    def asked(log: Log) -> Answer:
        return kept(_Same(log))

    return asked


@once_per_log
def parts_of(log: Log) -> tuple[tuple[Failure, Part], ...]:
    """All parts of all failures but advice, each with the failure that it belongs to, in the order of the log."""
    return tuple((failure, part) for failure in log.failures if failure.role != "advice" for part in parts(failure))


def frames(failure: Failure) -> Iterator[Frame]:
    """All frames, also those that the message quotes and those of the causes."""
    yield from failure.frames
    yield from failure.user_frames
    for cause in failure.causes:
        yield from frames(cause)


def last_name(type_name: str | None) -> str | None:
    """`OutOfMemoryError` of `torch.OutOfMemoryError`."""
    return type_name.rpartition(".")[2] if type_name else None


def ranks_of(failure: Failure) -> tuple[int, ...]:
    """All ranks that are known to have printed it."""
    return failure.ranks or (() if failure.rank is None else (failure.rank,))


def place(log: Log, failure: Failure, line: int | None = None) -> str:
    """`file:line` of a failure in its log."""
    source = failure.source or (log.sources[0] if len(log.sources) == 1 else "log")
    return f"{source}:{line or failure.first_line}"


def shortened(line: str) -> str:
    """One line, cut where it is longer than a person reads."""
    line = " ".join(line.split())
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…"


def printed(failure: Failure) -> str:
    """Type and message as they stand in the log; without a type that only the reader of the log gave it."""
    given = failure.type is not None and (" " in failure.type or failure.type.startswith("SIG"))
    return failure.message if given and failure.message else failure.printed
