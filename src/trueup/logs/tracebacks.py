"""A Python traceback that arrives line by line, with its chain of causes and the tracebacks inside its message."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import msgspec

from trueup.logs import frames
from trueup.logs.exceptions import (
    ADVICE,
    ASYNCHRONOUS,
    begins_something_else,
    continues_message,
    exception_line,
    is_advice,
)
from trueup.logs.lines import Draft, Line
from trueup.logs.messages import is_routine
from trueup.schema.log import Frame

HEADER = re.compile(
    r"^(?P<before>.*?)(?P<kind>Original |Exception Group )?[Tt]raceback \(most recent call last\)(?P<after>:?.*)$"
)
_NOTEBOOK = re.compile(r"^(?P<type>[A-Za-z_][\w.]*) {2,}$")
_CHAINED = (
    "The above exception was the direct cause of the following exception",
    "During handling of the above exception",
)
_USER_CODE = re.compile(
    r"(?:from user code|User [Ss]tack(?: trace)?|User code traceback|Graph break: from user code at).*:$"
)
_REMOTE = re.compile(
    r"ray::|RemoteTraceback|terminated with the following error|Caught \w+ in |[Oo]riginal [Tt]raceback|\"\"\"$|:$"
)
_ANNOTATION = re.compile(r"^\s*[│└├┌╭╰─┃|]")
_MESSAGE_LINES = 400
_SUMMARY_LINES = 4000
_OPEN_ENDS = (":", ",", "(", "[", "{", "\\")
_INDENTED_LINES = 40
_PLAIN_LINES = 12
"""Unindented lines without a blank line between that a message may have."""


class Traceback:
    """Reads one traceback; each line is offered, and those it takes belong to it."""

    def __init__(self, draft: Draft, *, margin: str = "", style: str = "python") -> None:
        self.draft = draft
        self.margin = margin
        """What stands in front of each of its lines: indentation, a quote mark."""
        self.style = style
        self.done = False
        self.last_line = draft.line.number
        self.advice: list[Line] = []
        self._state = "frames"
        self._inner: Traceback | None = None
        self._earlier: list[Draft] = []
        self._blank = 0
        self._plain = 0
        self._partial = ""
        self._quoting_user_code = False
        self._expects_header = False
        self._rules = 0
        self._only_indented = False

    @classmethod
    def of_message(cls, draft: Draft, *, only_indented: bool = False) -> Traceback:
        """An exception that is printed without frames, or another failure whose message may go on."""
        self = cls(draft)
        self._state = "message"
        self._only_indented = only_indented
        return self

    @property
    def strict(self) -> bool:
        """True for a message of which only indented lines may be a part."""
        return self._only_indented

    @property
    def unfinished(self) -> bool:
        """True when the message so far announces more."""
        return (
            self._state == "message"
            and bool(self.draft.message)
            and self.draft.message[-1].rstrip().endswith(_OPEN_ENDS)
        )

    @property
    def waits(self) -> bool:
        """True until the line that names the exception was read."""
        return not self.done and self._state == "frames"

    @property
    def reads_summary(self) -> bool:
        """True within the block in which torchrun lists its workers."""
        return self._state == "summary"

    def offer(self, line: Line) -> bool:
        """Takes the line when it belongs here. Sets `done` when the traceback turns out to be over."""
        if self.done:
            return False
        text = self._within_margin(line.text)
        if text is None:
            return self._over()
        read = {"frames": self._frame_line, "message": self._message_line, "summary": self._summary_line}[self._state]
        taken = self._offer_to_inner(line, text) or read(line, text)
        if taken:
            self.last_line = self.draft.last_line = line.number
        return taken

    def finish(self) -> Draft:
        """The failure as far as it was printed."""
        self.done = True
        if self._inner:
            self._adopt()
        draft = self.draft
        draft.causes = [*draft.causes, *_raised_within(draft), *reversed(self._earlier)]
        if any(ASYNCHRONOUS.search(text) for text in draft.message):
            draft.asynchronous = True
        if draft.type and draft.type.endswith("RemoteTraceback") and not draft.frames and draft.causes:
            sent = draft.causes[0]  # the rest is only the envelope in which another process sent it
            sent.causes = [*sent.causes, *draft.causes[1:]]
            return sent
        return draft

    # Frames

    def _frame_line(self, line: Line, text: str) -> bool:
        if not text.strip() or frames.CARETS.match(text) or frames.REPEATED.match(text):
            return True
        if self.style == "rich":
            if _ANNOTATION.match(text):
                self._rich_line(text)
                return True
        elif self.style == "notebook":
            return self._notebook_line(line, text)
        if frame := frames.python_frame(text):
            self.draft.frames.append(frame)
            return True
        if text[0].isspace():
            self._code(text)
            return bool(self.draft.frames)
        if _ANNOTATION.match(text):
            return True
        if HEADER.match(text):
            expected, self._expects_header = self._expects_header, False
            return expected
        if named := exception_line(text, expected=line.number <= self.last_line + 1):
            self._name(named)
            return True
        return False

    def _code(self, text: str) -> None:
        found = self.draft.frames
        if found and found[-1].code is None:
            found[-1] = msgspec.structs.replace(found[-1], code=text.strip()[:500])

    def _rich_line(self, text: str) -> None:
        inside = text.strip().strip("│┃").strip()
        if code := frames.pointer(inside):
            self._code(code)
        elif frame := frames.rich_frame(inside) or frames.rich_frame(self._partial + inside):
            self.draft.frames.append(frame)
            self._partial = ""
        else:  # a long path is broken over two lines
            self._partial = inside if re.match(r"[/~<A-Za-z]:?[\w./\\-]*$", inside) else ""

    def _notebook_line(self, line: Line, text: str) -> bool:
        if found := frames.arrow(text.strip()):
            if self.draft.frames:
                last = self.draft.frames[-1]
                self.draft.frames[-1] = msgspec.structs.replace(last, line=last.line or found[0], code=found[1])
        elif frame := frames.notebook_frame(text) or frames.python_frame(text):
            self.draft.frames.append(frame)
        elif (named := exception_line(text, expected=True)) and named[0].rpartition(".")[2] == self.draft.type:
            self._name(named)
        return line.number - self.draft.line.number < 5000

    def _name(self, named: tuple[str, str]) -> None:
        self.draft.type, message = named
        self.draft.message = [message]
        self._state = "summary" if self.draft.type.endswith("ChildFailedError") else "message"

    def _summary_line(self, line: Line, text: str) -> bool:
        """The block of torchrun between two double rules, whatever the workers' messages in it look like."""
        if line.header != self.draft.line.header or len(self.draft.message) > _SUMMARY_LINES:
            return self._over()
        self.draft.message.append(text)
        self._rules += text.startswith("=====")
        if self._rules == 2:
            self.done = True
        return True

    # Message

    def _message_line(self, line: Line, text: str) -> bool:
        bare = text.strip()
        if bare.startswith(_CHAINED):
            return self._chain()
        if not bare or bare == '"""':
            self._blank += not bare
            self._quoting_user_code = False
            self.draft.message.append("")
            return (self._blank < 6 and not self._only_indented) or self._over()
        if self._warned_line(text):
            return True
        if frame := frames.native_frame(text):
            if len(self.draft.native_frames) < 100:
                self.draft.native_frames.append(frame)
            return True
        if self._quoted_frame(text):
            return True
        if self._opens_inner(line, text):
            return True
        if "raceback (most recent call last)" in text or frames.python_frame(text):
            return self._over()
        if ADVICE.match(bare):
            self.advice.append(line)
            self._blank = 0
            return True
        if not self._continues(line, text):
            return self._over()
        self._blank = 0
        self._quoting_user_code = bool(_USER_CODE.match(bare)) or (self._quoting_user_code and text[0].isspace())
        self.draft.message.append(text)
        return True

    def _continues(self, line: Line, text: str) -> bool:
        if len(self.draft.message) > _MESSAGE_LINES:
            return False
        if continues_message(text):
            return True
        bare_and_next = text[0].isspace() and line.header == (None, None) and line.number <= self.last_line + 1
        if begins_something_else(text) or (line.header != self.draft.line.header and not bare_and_next):
            return False
        if self._only_indented:
            deeper = _indentation(text) > _indentation(self.draft.line.text)
            return (deeper or self.unfinished) and not self._blank and len(self.draft.message) <= _INDENTED_LINES
        if text[0].isspace():
            return self._blank < 3
        if self._blank or line.number > self.last_line + 1:
            return False
        if not self.unfinished and exception_line(text):
            return False
        self._plain += 1
        return self._plain <= _PLAIN_LINES and not is_routine(text)

    def _warned_line(self, text: str) -> bool:
        """Below a warning stands the source line that issued it."""
        found = self.draft.frames
        if not (self._only_indented and found and found[-1].code is None and text[:2] == "  "):
            return False
        found[-1] = msgspec.structs.replace(found[-1], code=text.strip()[:500])
        return True

    def _quoted_frame(self, text: str) -> bool:
        """Frames in a message are the user's code that Dynamo quotes, when it says so."""
        found = self.draft.user_frames
        if self._quoting_user_code:
            if frame := frames.python_frame(text):
                found.append(frame)
                return True
            if found and text[0].isspace():
                if found[-1].code is None and not frames.CARETS.match(text):
                    found[-1] = msgspec.structs.replace(found[-1], code=text.strip()[:500])
                return True
        return False

    # Tracebacks inside, causes before

    def _opens_inner(self, line: Line, text: str) -> bool:
        frame = frames.python_frame(text)
        header = HEADER.match(text)
        if not frame and not header:
            return False
        if self.draft.kind != "exception":
            return False
        said = f"{self.draft.type}: " + "\n".join(self.draft.message).strip()
        if not (header and header["kind"] == "Original ") and not _REMOTE.search(said):
            return False
        before = header["before"] if header else ""
        inner = Traceback(Draft("exception", self.draft.role, line), margin=before if not before.strip() else "")
        if frame:
            inner.draft.frames.append(frame)
        self._inner = inner
        return True

    def _offer_to_inner(self, line: Line, text: str) -> bool:
        if not self._inner:
            return False
        own = line if text == line.text else replace(line, text=text)
        if text.strip() != '"""' and self._inner.offer(own):
            return True
        if self._inner.waits and not self._inner.done and not begins_something_else(text):
            return False
        self._adopt()
        return False

    def _adopt(self) -> None:
        assert self._inner
        inner, self._inner = self._inner.finish(), None
        if inner.type or inner.frames:
            self.draft.causes = [inner, *inner.causes, *self.draft.causes]
            inner.causes = []
        self._blank = 0

    def _chain(self) -> bool:
        cause = self.finish()
        self._earlier = [*reversed(cause.causes), cause]
        cause.causes = []
        self.done = False
        self.draft = Draft(self.draft.kind, self.draft.role, self.draft.line)
        self._state, self._blank, self._plain = "frames", 0, 0
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


def header(line: Line) -> Traceback | None:
    """The traceback that this line opens."""
    if "raceback (most recent call last)" not in line.text:
        return None
    found = HEADER.match(line.text)
    if not found:
        return None
    before = found["before"]
    draft = Draft("exception", "root", line)
    if "╭" in before or "─" in before:
        return Traceback(draft, margin=before[: len(before) - len(before.lstrip())], style="rich")
    if named := _NOTEBOOK.match(before):
        draft.type = named["type"].rpartition(".")[2]
        return Traceback(draft, style="notebook")
    return Traceback(draft, margin=before if not before.strip(" >|│#*\t") else "")


def before_header(line: Line) -> Line | None:
    """What a program said on the line on which its traceback begins."""
    found = HEADER.match(line.text)
    if not found or _NOTEBOOK.match(found["before"]) or not any(letter.isalpha() for letter in found["before"]):
        return None
    return replace(line, text=found["before"].rstrip())


def from_frame(line: Line, frame: Frame) -> Traceback:
    """A traceback whose head is cut off or was never printed."""
    margin = line.text[: len(line.text) - len(line.text.lstrip())]
    draft = Draft("exception", "root", line, frames=[frame])
    return Traceback(draft, margin=margin[:-2])


def from_exception(line: Line) -> Traceback | None:
    """An exception that is named without any frame in front of it."""
    named = exception_line(line.text.strip())
    if not named or is_advice(line.text):
        return None
    return Traceback.of_message(Draft("exception", "root", line, type=named[0], message=[named[1]]))


def _indentation(text: str) -> int:
    return len(text) - len(text.lstrip())


def _raised_within(draft: Draft) -> list[Draft]:
    """`backend='inductor' raised:` is followed by the exception that the backend raised, without its frames."""
    for before, text in pairwise(draft.message):
        named = exception_line(text) if before.endswith("raised:") else None
        if named and not draft.causes:
            return [Draft("exception", draft.role, draft.line, type=named[0], message=[named[1]])]
    return []
