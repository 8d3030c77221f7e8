"""Lines to failures: which line opens a failure, which open failure takes it, and who wrote it."""

from __future__ import annotations

import re

from trueup.logs import builds, collectives, launchers, messages, native
from trueup.logs.collecting import Collector
from trueup.logs.crashes import crash
from trueup.logs.exceptions import is_advice
from trueup.logs.frames import native_frame, python_frame
from trueup.logs.groups import group
from trueup.logs.lines import Draft, Line
from trueup.logs.marks import Marks
from trueup.logs.openings import before_header, from_exception, from_frame, header
from trueup.logs.records import Record
from trueup.logs.separating import Separator
from trueup.logs.streams import Open, Stream
from trueup.logs.tracebacks import Traceback
from trueup.logs.versions import Versions

_MARKS = Marks(*builds.MARKS, *collectives.MARKS, *native.MARKS, *launchers.MARKS)
_IGNORED = re.compile(
    r"Exception ignored in|--- Logging error ---|Error in sys\.excepthook|Task exception was never retrieved"
)
_REPEATED = re.compile(r" ?\[repeated (?P<times>\d+)x across cluster\].*$")

_FRAME = re.compile(
    rb"(?:\[rank(?P<rank>\d{1,6})\]: )?(?P<text>  File \"[^\"\\\x00-\x1f]{1,300}\", line \d+(?:, in [\w.<>]+)?"
    rb"|    +[^\s\d|][^\\%\x00-\x1f\x7f]{0,300})$"
)
"""A line of a traceback that needs no cleaning and has no prefix but that of torchrun."""
_NUMBERS = re.compile(r"\d+")
_BOXES = "│╰├─×"
_RAISED = ("WARNING", "ERROR", "CRITICAL")

PATIENCE = 2000
"""Lines of others between two lines of one traceback: thousands of ranks may write into one text."""
MESSAGE_PATIENCE = 60
STREAMS_LIMIT = 50_000
PLAIN_LIMIT = 200
OPENINGS, OPENINGS_LIMIT = 50, 2000
"""Messages with the same beginning, and different beginnings, behind which continuations are looked for."""


class Parser:
    """Takes the lines that are worth reading, in order, and hands failures to the collector."""

    def __init__(self, collector: Collector, versions: Versions) -> None:
        self.collector = collector
        self.versions = versions
        self.ranks: set[int] = set()
        self.plain: list[tuple[int, Draft]] = []
        """Lines without any mark, kept while the text is short."""
        self.last: Draft | None = None
        """What the latest line became, when it was a failure by itself and no part of a traceback."""
        self._separator = Separator()
        self._open: dict[object, Stream] = {}
        self._records: dict[object, Record] = {}
        self._openings: dict[str, int] = {}
        self._attention = 0
        self._ignored_at = -10

    def begin(self, source: str | None, rank: int | None) -> None:
        """The next lines are those of another file."""
        self.end()
        self.collector.file += 1
        self._separator.begin(source, rank)
        self._attention, self._ignored_at = 0, -10

    def wants(self, number: int) -> bool:
        """True while an open failure may go on with any of the next lines."""
        if number > self._attention and (self._open or self._records):
            self.end()
        return bool(self._open or self._records)

    def feed(self, number: int, text: str) -> bool:
        """Reads a line. False when it carried nothing."""
        self.last = None
        carried = False
        for line in self._separator.lines(number, text):
            if line.rank is not None:
                self.ranks.add(line.rank)
            self.versions.look(line.text)
            carried |= self._line(line)
        return carried

    def frame(self, number: int, raw: bytes) -> bool:
        """Reads a line that can only be a frame of the one traceback that its stream has open: most lines of long
        logs of failures. False for any other line, which `feed` must read."""
        found = _FRAME.match(raw) if raw.isascii() else None
        if found is None:
            return False
        rank = int(found["rank"]) if found["rank"] else None
        stream = self._separator.stream(rank)
        opened = self._open.get(stream)
        if opened is None or len(opened.opened) != 1:
            return False
        reader = opened.opened[0]
        if not isinstance(reader, Traceback) or not reader.takes_frames():
            return False
        text = found["text"].decode("ascii").rstrip()
        self.last = None
        if rank is not None:
            self.ranks.add(rank)
        self.versions.look(text)
        reader.take_frame(number, text)
        opened.took(reader)
        self._attend(number + PATIENCE)
        return True

    def end(self) -> None:
        """Nothing follows."""
        for record in list(self._records.values()):
            self._close_record(record)
        self._records.clear()
        for opened in list(self._open.values()):
            for each in reversed(opened.opened):
                self._close(each)
        self._open.clear()

    def add_plain(self) -> None:
        """The text was short: whatever it says may be what it was pasted for."""
        for file, draft in self.plain:
            self.collector.file = file
            self.collector.add(draft)

    def _line(self, line: Line) -> bool:
        stream = line.stream
        if line.record is not None:
            return self._record_line(line)
        if stream in self._open and self._offer(stream, line):
            return True
        return self._opening(stream, line)

    # Open failures

    def _offer(self, stream: object, line: Line) -> bool:
        opened = self._open[stream]
        taken = False
        for each in opened.order_for(line):
            if each.waits or not self._names_another(each, line):
                taken = each.offer(line)
            else:
                each.done = True
            if taken:
                opened.took(each)
                self._attend(line.number + (PATIENCE if each.waits else MESSAGE_PATIENCE))
            if each.done:
                opened.remove(each)
                self._close(each)
            if taken:
                break
        if not opened.opened:
            del self._open[stream]
        return taken

    def _names_another(self, each: Open, line: Line) -> bool:
        """A line that is a failure of its own does not continue the message of an exception."""
        if not isinstance(each, Traceback) or not line.text or each.message is None:
            return False
        if line.text[0].isspace() and not each.message.only_indented:
            return False
        if each.margin or each.reads_summary or each.message.unfinished:
            return False
        if messages.warning(line):
            return True
        found = _MARKS.names(line) if messages.is_notice(line.text) else None
        return found is not None and not found.continues and native_frame(line.text) is None

    def _close(self, each: Open) -> None:
        draft = each.finish()
        for line in each.advice:
            self.collector.add(Draft("message", "advice", line, message=[line.text.strip()]))
        if not draft.type and not draft.message and len(draft.frames) < 1:
            return
        if draft.type and draft.type.endswith("ChildFailedError"):
            draft.kind, draft.role = "launcher", "summary"
            for worker in launchers.workers(draft):
                self.collector.add(worker)
        elif draft.type and draft.type.endswith("Warning"):
            draft.kind, draft.role = "message", "warning"
        elif draft.line.level in ("WARNING", "INFO", "DEBUG"):
            draft.role = "warning"
        self.collector.add(draft)

    def _begin(self, stream: object, each: Open, line: Line) -> None:
        if self._ignored_at >= line.number - 3 and isinstance(each, Traceback):
            each.draft.role = "warning"
        if len(self._open) < STREAMS_LIMIT:
            self._open.setdefault(stream, Stream()).begin(each)
            self._attend(line.number + (PATIENCE if each.waits else MESSAGE_PATIENCE))

    def _attend(self, until: int) -> None:
        self._attention = max(self._attention, until)

    # Records whose formatter repeats the prefix

    def _record_line(self, line: Line) -> bool:
        key = (line.stream, line.record)
        record = self._records.get(key)
        if record is None:
            owner = (line.stream, line.writer)
            for other_key, other in list(self._records.items()):
                if other.owner == owner or line.number > other.last_line + MESSAGE_PATIENCE:
                    del self._records[other_key]
                    self._close_record(other)
            record = self._records[key] = Record(owner)
        record.add(line)
        self._attend(line.number + MESSAGE_PATIENCE)
        return True

    def _close_record(self, record: Record) -> None:
        """Reads the record as a text of its own: it may hold tracebacks."""
        lines = record.lines()
        opening = next((at for at, line in enumerate(lines) if header(line)), None)
        if opening is not None:
            for line in lines[:opening]:
                self._opening(None, line, may_open=False)
            reader = header(lines[opening])
            assert reader is not None
            for line in lines[opening + 1 :]:
                reader.offer(line)
            self._close(reader)
            return
        if len(lines) > 1 and (found := _MARKS.first(lines[0])) is None:
            self.collector.add(record.message())
            return
        if len(lines) > 1 and found:
            found[0].message = [line.text for line in lines]
            self.collector.add(found[0])
        elif lines:
            self._opening(None, lines[0], may_open=False)

    # What a line opens

    def _opening(self, stream: object, line: Line, *, may_open: bool = True) -> bool:
        text = line.text
        if not text.strip():
            return False
        if reader := group(line) or header(line) or crash(line):
            if said := before_header(line):
                self._opening(None, said, may_open=False)
            self._begin(stream, reader, line)
            return True
        if (frame := python_frame(text)) and may_open:
            self._begin(stream, from_frame(line, frame), line)
            return True
        if is_advice(text):
            self._open_or_add(stream, Draft("message", "advice", line, message=[text]), may_open=False)
            return True
        if draft := messages.warning(line):
            self._open_or_add(stream, draft, may_open=may_open, only_indented=True)
            return True
        if _IGNORED.search(text):
            self._ignored_at = line.number
        if draft := from_exception(line):
            self._open_or_add(stream, draft, may_open=may_open)
            return True
        if repeated := _REPEATED.search(text):
            line.text = text = text[: repeated.start()]
        if messages.is_routine(text):
            return False
        notice = messages.is_notice(text)
        if notice and (found := _MARKS.first(line)):
            self._open_or_add(stream, found[0], may_open=may_open and found[1].continues)
        elif notice or line.level in _RAISED:
            may_open = may_open and line.level not in ("INFO", "DEBUG") and text[0] not in _BOXES
            self._open_or_add(stream, messages.message(line), may_open=may_open, only_indented=True)
        else:
            if len(self.plain) < PLAIN_LIMIT:
                self.plain.append((self.collector.file, messages.message(line)))
            return False
        return True

    def _is_new(self, draft: Draft) -> bool:
        """False for a message of which many were read: its continuations are known."""
        start = _NUMBERS.sub("", draft.message[0][:40]) if draft.message else ""
        seen = self._openings.get(start, 0)
        if not seen and len(self._openings) >= OPENINGS_LIMIT:
            return False
        self._openings[start] = seen + 1
        return seen < OPENINGS

    def _open_or_add(self, stream: object, draft: Draft, *, may_open: bool, only_indented: bool = False) -> None:
        self.last = draft
        if may_open and self._is_new(draft):
            self._begin(stream, Traceback.of_message(draft, only_indented=only_indented), draft.line)
        else:
            draft.message = [text.strip() for text in draft.message]
            self.collector.add(draft)
