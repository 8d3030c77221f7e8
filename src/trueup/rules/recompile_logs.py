"""Recompiles as a log tells them: the warning at the limit, the reasons of TORCH_LOGS=recompiles, and hard failures."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from trueup.rules.definition import Sighting
from trueup.rules.guards import Guard, Kind, guard, optimizer_function
from trueup.rules.log_parts import last_name, once_per_log, parts, place, printed, ranks_of
from trueup.rules.log_text import MARGIN, unescaped
from trueup.schema.finding import Confidence, Evidence, Severity
from trueup.schema.log import Failure, Log

_HIT = re.compile(
    r"torch\._dynamo hit (?:config\.)?(?P<limit>(?:accumulated_)?(?:recompile"
    r"|cache_size)_limit)(?: \((?P<number>\d+)\))?"
)
_FUNCTION = re.compile(r"function: '?(?P<name>[^'\n(]+?)'? \((?P<file>[^)\n]+?)(?::(?P<line>\d+))?\)")
_LAST = re.compile(r"(?:last )?reasons?: *(?P<reason>[^\n]+)")
_LAST_ONLY = re.compile(
    r"^(?:[^\n]*?\] *)?[\s`]*(?:last reason:|reasons:(?= +(?:L\[|___check_|tensor '))) *(?P<reason>[^\n]+)", re.M
)
"""torch 2.0 and 2.1 write `reasons:`."""
_LINE = re.compile(
    r"^(?:[^\n]*?\] *)?[\s`]*-? *(?P<reason>(?:\d+/\d+: |tensor 'L\[|L\['|___check_|__nn_module_guard_)[^\n]+)", re.M
)
_GUARDED = re.compile(
    r"\d+/\d+: \S|guard failure|size mismatch at index|___check_|__nn_module_guard|requires_grad mismatch"
    r"|L\['\w+'\]\S* ==|\.size\(\)\[\d+\]|dispatch key set mismatch|dtype mismatch\. expected"
)
_RECOMPILING = re.compile(r"Recompiling function '?(?P<name>[^\s']+)'? in (?P<file>[^\s:]+)(?::(?P<line>\d+))?")
_GUARDS_OF = re.compile(r"_dynamo[/.]guards")
HARD = re.compile(
    r"FailOn(?:Recompile|Cache)LimitHit|Hard failure due to fullgraph"
    r"|(?:recompile|cache)_limit reached with (?:one_graph|fullgraph)"
)
FOLLOWING = 4
"""Failures behind the warning that may hold its next lines."""
STORM = 4
"""Reasons from which on recompiles are more than automatic dynamic shapes, or train and eval, explain."""


class Limit(msgspec.Struct, frozen=True):
    """The warning that a function reached the limit."""

    failure: Failure
    name: str
    """`recompile_limit`, before torch 2.6 `cache_size_limit`."""
    number: int | None
    function: str | None
    """`forward (train.py:12)`."""
    reason: str | None
    text: str
    """The whole warning."""

    @property
    def guard(self) -> Guard | None:
        return guard(self.reason) if self.reason else None

    @property
    def of_optimizer(self) -> bool:
        """Judged by the function and its file; folders above may be called anything."""
        return bool(self.function) and optimizer_function("/".join(re.split(r"[/\\\\]", str(self.function))[-2:]))


class Reason(msgspec.Struct, frozen=True):
    """A guard that failed, from the log of recompiles."""

    failure: Failure
    guard: Guard
    function: str | None


class Storm(msgspec.Struct, frozen=True):
    """The recompiles of a log for one kind of reason."""

    log: Log
    limit: Limit | None
    reasons: tuple[Reason, ...]

    @property
    def guards(self) -> tuple[Guard, ...]:
        last = (self.limit.guard,) if self.limit and self.limit.guard else ()
        return (*(each.guard for each in self.reasons), *last)

    @property
    def function(self) -> str:
        """The function that recompiled, in words."""
        named = (
            self.limit.function if self.limit else next((each.function for each in self.reasons if each.function), None)
        )
        return named or "A compiled function"

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.source for each in self.guards if each.source))

    @property
    def count(self) -> int:
        """Recompiles; each lists every variant that did not fit, so its lines are more than one."""
        told = {id(each.failure): each.failure for each in self.reasons}
        recompiles = sum(len(_RECOMPILING.findall(_raw(each))) * each.count for each in told.values())
        return recompiles or len(self.reasons)

    @property
    def repeated(self) -> bool:
        """More than automatic dynamic shapes, or one variant for train and one for eval, explain."""
        return self.limit is not None or self.count >= STORM

    @property
    def confidence(self) -> Confidence:
        """Each variant that is expected recompiles once, so a single line proves little."""
        if self.repeated:
            return "established"
        return "likely" if self.count > 1 else "possible"

    def sighting(
        self,
        why: str,
        *,
        confidence: Confidence | None = None,
        severity: Severity | None = None,
        specificity: int = 1000,
    ) -> Sighting:
        """What a detector of this kind answers; `why` ends its sentence."""
        hard = hard_failure(self.log)
        failure = hard or (self.limit.failure if self.limit else self.reasons[0].failure)
        end = f" and reached the {self.limit.name}{number_of(self.limit)}" if self.limit else ""
        count = f" {self.count} times" if self.count > 1 else ""
        return Sighting(
            message=f"{self.function} was compiled again{count}{end}: {why}.",
            evidence=self.evidence(),
            confidence=confidence or self.confidence,
            severity="error" if hard else severity,
            failure=failure,
            # The last reason before the limit says more than the reasons on the way to it.
            specificity=specificity if self.limit else specificity - 100,
        )

    def evidence(self) -> tuple[Evidence, ...]:
        seen = []
        if self.limit:
            seen.append(_printed(self.log, self.limit.failure, f"{self.limit.name} reached by", self.limit.function))
            if self.limit.guard:
                seen.append(_printed(self.log, self.limit.failure, "last reason", self.limit.guard.text))
        seen += [_printed(self.log, each.failure, "recompiled because", each.guard.text) for each in self.reasons[:3]]
        return tuple(seen)


def storm(log: Log, *kinds: Kind) -> Storm | None:
    """The recompiles of these kinds; None when there are none."""
    limits = limits_of(log)
    reasons = tuple(each for each in reasons_of(log) if each.guard.kind in kinds)
    limit = next((each for each in limits if each.guard and each.guard.kind in kinds), None)
    if limit is None and not reasons:
        return None
    return Storm(log, limit, reasons)


@once_per_log
def limits_of(log: Log) -> tuple[Limit, ...]:
    """All warnings about the limit, each with the lines that belong to it."""
    return tuple(_limits(log))


def _limits(log: Log) -> Iterator[Limit]:
    ordered = sorted(log.failures, key=lambda each: (each.source or "", each.first_line))
    if not any(_HIT.search(_raw(failure)) for failure in ordered):
        yield from _cut_limits(ordered)
    for position, failure in enumerate(ordered):
        text = _raw(failure)
        hits = list(_HIT.finditer(text))
        ends = [*(hit.start() for hit in hits[1:]), len(text)]
        for hit, end in zip(hits, ends, strict=False):
            own = text[hit.start() : end]
            if end == len(text) and not _LAST.search(own):
                own = "\n".join((own, *_next_lines(failure, ordered[position + 1 : position + 1 + FOLLOWING])))
            yield _limit(failure, hit, own)


def _cut_limits(ordered: list[Failure]) -> Iterator[Limit]:
    """Of a log that begins within the warning: what follows `last reason` there is printed by nothing else."""
    for position, failure in enumerate(ordered):
        found = _LAST_ONLY.search(_raw(failure))
        if found is None:
            continue
        before = "\n".join(map(_raw, ordered[max(0, position - 1) : position + 1]))
        yield _limit(failure, found, before)


@once_per_log
def reasons_of(log: Log) -> tuple[Reason, ...]:
    """All reasons that TORCH_LOGS=recompiles printed."""
    return tuple(_reasons(log))


def _reasons(log: Log) -> Iterator[Reason]:
    for failure in log.failures:
        text = _raw(failure)
        if failure.role == "advice" or _HIT.search(text) or _LAST_ONLY.search(text) or not _GUARDED.search(text):
            continue
        named = _RECOMPILING.search(text)
        function = f"{named['name']} ({named['file']}{':' + named['line'] if named['line'] else ''})" if named else None
        told = named is not None or bool(failure.place and _GUARDS_OF.search(failure.place)) or "guards.py" in text
        for line in _LINE.finditer(text):
            if told or failure.kind == "message":
                yield Reason(failure, guard(line["reason"]), function)


def hard_failure(log: Log) -> Failure | None:
    """The exception that the limit became, under fullgraph or by configuration."""
    return next(
        (
            failure
            for failure in log.failures
            if (
                failure.role == "root"
                and (last_name(failure.type) or "").startswith(("FailOnRecompileLimitHit", "FailOnCacheLimitHit"))
            )
            or HARD.search(failure.message)
        ),
        None,
    )


def number_of(limit: Limit) -> str:
    """` (8)`, empty where the log does not tell it."""
    return f" ({limit.number})" if limit.number else ""


def _limit(failure: Failure, hit: re.Match[str], text: str) -> Limit:
    function, reason = _FUNCTION.search(text), _LAST.search(text)
    told, named = hit.groupdict(), None
    if function:
        named = f"{function['name']} ({function['file']}{':' + function['line'] if function['line'] else ''})"
    return Limit(
        failure=failure,
        name=told.get("limit") or "recompile limit",
        number=int(told["number"]) if told.get("number") else None,
        function=named,
        reason=reason["reason"].strip() if reason else None,
        text=text,
    )


def _next_lines(failure: Failure, following: list[Failure]) -> Iterator[str]:
    """Lines of the same process, until another warning about a limit begins."""
    for each in following:
        if (each.source, each.rank) != (failure.source, failure.rank):
            continue
        text = _raw(each)
        if _HIT.search(text):
            return
        yield text


def _raw(failure: Failure) -> str:
    """What was printed, with its quotation marks, which tell names from words in guards."""
    text = "\n".join(printed(part.failure) for part in parts(failure))
    return MARGIN.sub("\n", unescaped(text) if "&" in text else text)


def _printed(log: Log, failure: Failure, what: str, value: str | None) -> Evidence:
    return Evidence(what=what, value=value, at=place(log, failure), ranks=ranks_of(failure))
