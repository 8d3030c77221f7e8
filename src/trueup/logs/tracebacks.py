"""A Python traceback that arrives line by line, with its chain of causes and the tracebacks inside its message."""

from __future__ import annotations

import re
from dataclasses import replace

from trueup.logs import frames
from trueup.logs.continuations import Continuation, add_code
from trueup.logs.exceptions import begins_something_else, exception_line
from trueup.logs.lines import Draft, Line

HEADER = re.compile(
    r"^(?P<before>.*?)(?P<kind>Original |Exception Group )?[Tt]raceback \(most recent call last\)(?P<after>:?.*)$"
)
ANNOTATION = re.compile(r"^\s*[│└├┌╭╰─┃|]")
_CHAINED = (
    "The above exception was the direct cause of the following exception",
    "During handling of the above exception",
)
_REMOTE = re.compile(
    r"ray::|RemoteTraceback|terminated with the following error|Caught \w+ in |[Oo]riginal [Tt]raceback|\"\"\"$|:$"
)
_SUMMARY_LINES = 4000


class Traceback:
    """Reads one traceback; each line is offered, and those it takes belong to it."""

    def __init__(self, draft: Draft, *, margin: str = "") -> None:
        self.draft = draft
        self.margin = margin
        """What stands in front of each of its lines: indentation, a quote mark."""
        self.done = False
        self.last_line = draft.line.number
        self.advice: list[Line] = []
        self.message: Continuation | None = None
        """Set once the line that names the exception was read."""
        self._summary_rules: int | None = None
        """Double rules read so far of the block in which torchrun lists its workers."""
        self._inner: Traceback | None = None
        self._earlier: list[Draft] = []
        self._expects_header = False

    @classmethod
    def of_message(cls, draft: Draft, *, only_indented: bool = False) -> Traceback:
        """An exception that is printed without frames, or another failure whose message may go on."""
        self = cls(draft)
        self.message = Continuation(draft, only_indented=only_indented)
        self._summary_rules = 0 if _lists_workers(draft) else None
        return self

    @property
    def waits(self) -> bool:
        """True until the line that names the exception was read."""
        return not self.done and self.message is None

    @property
    def reads_summary(self) -> bool:
        """True within the block in which torchrun lists its workers."""
        return self._summary_rules is not None

    def offer(self, line: Line) -> bool:
        """Takes the line when it belongs here. Sets `done` when the traceback turns out to be over."""
        if self.done:
            return False
        text = self._within_margin(line.text)
        if text is None:
            return self._over()
        if self._offer_to_inner(line, text):
            taken = True
        elif self.message is None:
            taken = self.frame_line(line, text)
        elif self.reads_summary:
            taken = self._summary_line(line, text)
        else:
            taken = self._message_line(self.message, line, text)
        if taken:
            self.last_line = self.draft.last_line = line.number
        return taken

    def takes_frames(self) -> bool:
        """True while the next line can only be one of its frames, when it looks like one."""
        return self.waits and not self.margin and self._inner is None and not self._expects_header

    def take_frame(self, number: int, text: str) -> None:
        """Takes a line that stands below a header: a frame, its code or the marks under the code."""
        if frame := frames.python_frame(text):
            self.draft.frames.append(frame)
        elif not frames.CARETS.match(text) and not frames.REPEATED.match(text):
            add_code(self.draft.frames, text)
        self.last_line = self.draft.last_line = number

    def finish(self) -> Draft:
        """The failure as far as it was printed."""
        self.done = True
        if self._inner:
            self._adopt(self._inner)
        if self.message:
            self.message.finish()
            self.advice += self.message.advice
        draft = self.draft
        draft.causes = [*draft.causes, *reversed(self._earlier)]
        if draft.type and draft.type.endswith("RemoteTraceback") and not draft.frames and draft.causes:
            sent = draft.causes[0]  # the rest is only the envelope in which another process sent it
            sent.causes = [*sent.causes, *draft.causes[1:]]
            return sent
        return draft

    def frame_line(self, line: Line, text: str) -> bool:
        """Takes a line of the frames, up to the one that names the exception."""
        if not text.strip() or frames.CARETS.match(text) or frames.REPEATED.match(text):
            return True
        if frame := frames.python_frame(text):
            self.draft.frames.append(frame)
            return True
        if text[0].isspace():
            add_code(self.draft.frames, text)
            return bool(self.draft.frames)
        if ANNOTATION.match(text):
            return True
        if HEADER.match(text):
            expected, self._expects_header = self._expects_header, False
            return expected
        if named := exception_line(text, expected=line.number <= self.last_line + 1):
            self.name(named, line)
            return True
        return False

    def name(self, named: tuple[str, str], line: Line) -> None:
        """The frames are over: type and message of the exception."""
        self.draft.type, message = named
        self.draft.message = [message]
        self.message = Continuation(self.draft)
        self.message.last_line = line.number
        self._summary_rules = 0 if _lists_workers(self.draft) else None

    def _message_line(self, message: Continuation, line: Line, text: str) -> bool:
        if text.strip().startswith(_CHAINED):
            return self._chain()
        return self._opens_inner(line, text) or message.take(line, text) or self._over()

    def _summary_line(self, line: Line, text: str) -> bool:
        """The block of torchrun between two double rules, whatever the workers' messages in it look like."""
        cut_short = "ChildFailedError" in text or text.startswith("Traceback (most recent call last)")
        if cut_short or line.header != self.draft.line.header or len(self.draft.message) > _SUMMARY_LINES:
            return self._over()
        self.draft.message.append(text)
        self._summary_rules = (self._summary_rules or 0) + text.startswith("=====")
        self.done = self._summary_rules == 2
        return True

    # Tracebacks inside, causes before

    def _opens_inner(self, line: Line, text: str) -> bool:
        frame = frames.python_frame(text)
        header = HEADER.match(text)
        if not (frame or header) or self.draft.kind != "exception":
            return False
        said = f"{self.draft.type}: " + "\n".join(self.draft.message).strip()
        if said.endswith("code:") or not ((header and header["kind"] == "Original ") or _REMOTE.search(said)):
            return False
        before = header["before"] if header else ""
        self._inner = Traceback(Draft("exception", self.draft.role, line), margin="" if before.strip() else before)
        if frame:
            self._inner.draft.frames.append(frame)
        return True

    def _offer_to_inner(self, line: Line, text: str) -> bool:
        inner = self._inner
        if not inner:
            return False
        if text.strip() != '"""' and inner.offer(line if text == line.text else replace(line, text=text)):
            return True
        if not inner.waits or begins_something_else(text):
            self._adopt(inner)
        return False

    def _adopt(self, reader: Traceback) -> None:
        self._inner = None
        inner = reader.finish()
        self.advice += reader.advice
        if inner.type or inner.frames:
            self.draft.causes = [inner, *inner.causes, *self.draft.causes]
            inner.causes = []
        if self.message:
            self.message.resume(reader.last_line)

    def _chain(self) -> bool:
        cause = self.finish()
        self._earlier = [*reversed(cause.causes), cause]
        cause.causes = []
        self.done = False
        self.draft = Draft(self.draft.kind, self.draft.role, self.draft.line)
        self.message = None
        self._expects_header = True
        return True

    def _over(self) -> bool:
        self.done = True
        return False

    def _within_margin(self, text: str) -> str | None:
        margin = self.margin
        if not margin or text.startswith(margin):
            return text[len(margin) :]
        if not text.strip() or text.strip() == margin.strip():
            return ""
        return None


def _lists_workers(draft: Draft) -> bool:
    return draft.type is not None and draft.type.endswith("ChildFailedError")
