"""Graph breaks and untraceable code as a log tells them: Dynamo's exceptions, its warnings, its graph-break log."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from trueup.rules.breaks import Kind, break_kind, break_text
from trueup.rules.definition import Sighting
from trueup.rules.log_parts import Part, frames, last_name, parts, place, printed, ranks_of
from trueup.schema.finding import Confidence, Evidence
from trueup.schema.log import Failure, Frame, Log
from trueup.schema.record import GraphBreak

_TELLS = re.compile(
    r"Graph [Bb]reak|graph break|torch\._dynamo\.exc\.\w*Unsupported|\[__graph_breaks\]|inline in skipfiles"
    r"|call_function BuiltinVariable|generic_jump|Attempted to (?:call|inline) function marked as skipped"
    r"|torch\.compiler\.disable|While executing %\w+ :|Dynamo does not (?:know how to trace|support tracing)"
    r"|Unsupported Tensor\.item|(?:[Dd]ynamic shape|[Dd]ata dependent) operator|call_method\[target=(?:item|tolist)\]"
    r"|_local_scalar_dense|[Gg]uard on data-dependent|DynamicOutputShapeException|DataDependentOutputException"
    r"|Data-dependent branching|Dynamic control flow is not supported|Dynamo only supports FSDP"
)
_RAISED = {"Unsupported", "UserError", "InternalTorchDynamoError", "TorchRuntimeError"}
_INTERNAL = re.compile(r"torch/(?:_dynamo|_inductor|_functorch|fx|_compile)|<frozen|<string>|<eval_with_key>")
_QUOTED = re.compile(r'File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?:, in (?P<function>\S+))?\n\s*(?P<code>[^\n]*)')
_AT = re.compile(r"Graph break in user code at (?P<file>[^\s:]+):(?P<line>\d+)")


class BreakLine(msgspec.Struct, frozen=True):
    """A break, and the failure that tells it."""

    failure: Failure
    told: GraphBreak
    user: Frame | None
    """The innermost line of the user's code, or of a library, that Dynamo quotes."""
    quoted: tuple[Frame, ...]
    """All lines that Dynamo quotes, outermost first."""

    @property
    def raised(self) -> bool:
        """It ended the job, as fullgraph=True makes it do."""
        return self.failure.role == "root" and last_name(self.failure.type) in _RAISED

    @property
    def kind(self) -> Kind:
        return break_kind(self.told)

    def within(self, expression: str) -> Frame | None:
        """The innermost line of the traced code whose file or function fits."""
        wanted = re.compile(expression)
        return next((each for each in reversed(self.quoted) if wanted.search(_named(each))), None)

    def says(self, expression: str) -> re.Match[str] | None:
        """Where the text of the break has this expression."""
        return re.search(expression, break_text(self.told))

    def sighting(
        self, log: Log, message: str, confidence: Confidence = "established", specificity: int = 1000
    ) -> Sighting:
        """What a detector of this break answers."""
        return Sighting(
            message=message,
            evidence=self.evidence(log),
            confidence=confidence,
            severity="error" if self.raised else None,
            failure=self.failure,
            specificity=specificity,
        )

    def evidence(self, log: Log) -> tuple[Evidence, ...]:
        """The line that says what broke, and the line of code that did it."""
        part, start = _telling(self.failure)
        line, number = part.line_of(start)
        seen = [Evidence(what="printed", value=line, at=place(log, self.failure, number), ranks=ranks_of(self.failure))]
        if self.user is not None:
            at = f"{self.user.file}{f':{self.user.line}' if self.user.line else ''}"
            seen.append(
                Evidence(what="code that could not be traced", value=self.user.code or self.user.function, at=at)
            )
        return tuple(seen)


def break_lines(log: Log) -> Iterator[BreakLine]:
    """All breaks of a log, in the order of the failures."""
    for failure in log.failures:
        if failure.role == "advice":
            continue
        text = "\n".join(printed(part.failure) for part in parts(failure))
        if _TELLS.search(text) or last_name(failure.type) == "Unsupported":
            yield _break_line(failure, text)


def break_line(log: Log, *kinds: Kind) -> BreakLine | None:
    """The first break of one of these kinds."""
    return next((each for each in break_lines(log) if each.kind in kinds), None)


def _break_line(failure: Failure, text: str) -> BreakLine:
    quoted = failure.user_frames or _quoted(text) or tuple(frames(failure))
    outside = [each for each in quoted if not _INTERNAL.search(each.file.replace("\\", "/"))]
    user = outside[-1] if outside else None
    at = f"{user.file}:{user.line}" if user else None
    found = _AT.search(text)
    told = GraphBreak(
        reason=text,
        at=f"{found['file']}:{found['line']}" if found else at,
        explanation="\n".join(f"{each.file} {each.code or ''}" for each in failure.user_frames) or None,
    )
    return BreakLine(failure, told, user, quoted)


def _quoted(text: str) -> tuple[Frame, ...]:
    """The lines of code that the message itself quotes, where the reader left them in the text."""
    return tuple(
        Frame(file=each["file"], line=int(each["line"]), function=each["function"], code=each["code"].strip() or None)
        for each in _QUOTED.finditer(text)
    )


def _telling(failure: Failure) -> tuple[Part, int]:
    """The part that tells the break, and where in it."""
    for part in parts(failure):
        found = _TELLS.search(part.said)
        if found:
            return part, found.start()
    return Part(failure), 0


def _named(frame: Frame) -> str:
    return f"{frame.file.replace(chr(92), '/')} {frame.function or ''}"
