"""Questions that several rules ask of a log; each answers from printed text and frames only.

Expressions are searched in the normal form of a text, which has no quotation marks (see `log_text`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

import msgspec

from trueup.rules.expression import Expression
from trueup.rules.log_parts import Part, frames, once_per_log, parts_of, place, ranks_of
from trueup.schema.finding import Evidence
from trueup.schema.log import Failure, Frame, Log

BUILDERS = Expression(
    r"subprocess-exited-with-error|metadata-generation-failed|Getting requirements to build wheel|Failed to build"
    r"|[Bb]uild backend|build dependency|(?:Building|build) wheels?\b|bdist_wheel|egg_info|setup\.py|cpp_extension"
    r"|pip-(?:build-env|install|req-build)|\b(?:nvcc|cicc|ptxas|cudafe\+\+|cc1plus|ninja|FAILED:)(?!\w)"
)
"""What is printed while a package is built: by pip, uv, setuptools, ninja and the compilers."""

BUILDING_CODE = Expression(
    r"pip-(?:build-env|install|req-build|wheel)|/builds-v0/|/sdists-v\d+/|setup\.py$|setuptools/|build_meta\.py|/hatchling/"
    r"|pyproject_hooks|cpp_extension\.py|<pip-setuptools-caller>"
)


class Mention(msgspec.Struct, frozen=True):
    """A place where an expression stands in what a failure says."""

    failure: Failure
    part: Part
    found: re.Match[str]

    def evidence(self, log: Log, what: str = "printed") -> Evidence:
        """The line of the log that holds it."""
        line, number = self.part.line_of(self.found.start())
        return Evidence(what=what, value=line, at=place(log, self.failure, number), ranks=ranks_of(self.failure))


def mentions(log: Log, expression: str) -> Iterator[Mention]:
    """All places, in the order of the failures; advice is passed over."""
    wanted = _compiled(expression)
    for failure, part in parts_of(log):
        for found in wanted.finditer(part.said):
            yield Mention(failure, part, found)


def mention(log: Log, expression: str) -> Mention | None:
    """The first place."""
    return next(mentions(log, expression), None)


def is_build(log: Log, failure: Failure | None = None) -> bool:
    """True when the log, or this failure of it, is of the build of a package."""
    if failure is None:
        return _is_any_build(log)
    return any(_of_build(each, part) for each, part in parts_of(log) if each is failure)


@once_per_log
def _is_any_build(log: Log) -> bool:
    return any(_of_build(failure, part) for failure, part in parts_of(log))


def _of_build(failure: Failure, part: Part) -> bool:
    return (
        failure.kind == "build"
        or bool(BUILDERS.search(part.said))
        or any(BUILDING_CODE.search(frame.file) for frame in frames(part.failure))
    )


def passes(failure: Failure, *names: str) -> Frame | None:
    """The innermost frame whose file or function is one of these parts of paths or names."""
    for frame in reversed(list(frames(failure))):
        path = frame.file.replace("\\", "/")
        if frame.function in names or any("/" in name and name in path for name in names):
            return frame
    return None


@lru_cache(maxsize=256)
def _compiled(expression: str) -> re.Pattern[str]:
    return re.compile(expression)
