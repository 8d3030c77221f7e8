"""One line of a log with what its prefixes told, and a failure while its lines are still arriving."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trueup.schema.log import Failure, FailureKind, Frame, Role

if TYPE_CHECKING:
    from trueup.logs.collecting import Entry

MESSAGE_HEAD, MESSAGE_TAIL = 120, 40
"""Lines kept of a long message: a failure must stay small whatever a job prints."""
FRAMES_HEAD, FRAMES_TAIL = 60, 140
LINE_LIMIT = 4000
"""Characters kept of one line."""


@dataclass(slots=True)
class Line:
    """The text of a line behind its prefixes."""

    number: int
    text: str
    rank: int | None = None
    host: str | None = None
    time: str | None = None
    level: str | None = None
    place: str | None = None
    writer: str = ""
    """What tells apart the processes that write into one text, besides the rank."""
    record: str | None = None
    """Same for all lines of one log record whose formatter repeats the prefix on each line."""
    source: str | None = None

    @property
    def stream(self) -> tuple[str | None, int | None, str]:
        """Lines of one stream were written by one process, so they follow each other."""
        return (self.source, self.rank, "" if self.rank is not None else self.writer)

    @property
    def header(self) -> tuple[str | None, str | None]:
        """Lines with different headers belong to different log records."""
        return (self.level, self.place)


@dataclass(slots=True)
class Draft:
    """A failure that is being read."""

    kind: FailureKind
    role: Role
    line: Line
    """Its first line."""
    type: str | None = None
    message: list[str] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    user_frames: list[Frame] = field(default_factory=list)
    native_frames: list[Frame] = field(default_factory=list)
    causes: list[Draft] = field(default_factory=list)
    last_line: int = 0
    rank: int | None = None
    """Overrides the rank of the line: launchers speak about other ranks."""
    host: str | None = None
    time: str | None = None
    asynchronous: bool = False
    entry: Entry | None = None
    """Where it was counted, once it was."""

    def text(self) -> str:
        """The message as one text, without blank lines around it."""
        lines = self.message
        if len(lines) > MESSAGE_HEAD + MESSAGE_TAIL:
            left_out = len(lines) - MESSAGE_HEAD - MESSAGE_TAIL
            lines = [*lines[:MESSAGE_HEAD], f"[... {left_out} lines ...]", *lines[-MESSAGE_TAIL:]]
        return "\n".join(line[:LINE_LIMIT].rstrip() for line in lines).strip("\n").strip()

    def failure(self) -> Failure:
        """The finished value."""
        rank = self.line.rank if self.rank is None else self.rank
        return Failure(
            kind=self.kind,
            role=self.role,
            type=self.type,
            message=self.text(),
            frames=_bounded(self.frames),
            user_frames=_bounded(self.user_frames),
            native_frames=_bounded(reversed(self.native_frames)),
            causes=tuple(cause.failure() for cause in self.causes),
            rank=rank,
            ranks=() if rank is None else (rank,),
            host=self.host or self.line.host,
            time=self.time or self.line.time,
            first_line=self.line.number,
            last_line=max(self.last_line, self.line.number),
            source=self.line.source,
            level=self.line.level,
            place=self.line.place,
            asynchronous=self.asynchronous,
        )


def _bounded(frames: Iterable[Frame]) -> tuple[Frame, ...]:
    kept = tuple(frames)
    if len(kept) <= FRAMES_HEAD + FRAMES_TAIL:
        return kept
    return kept[:FRAMES_HEAD] + kept[-FRAMES_TAIL:]
