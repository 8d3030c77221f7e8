"""A trainer's whole module was compiled, so Dynamo traces logging and hooks."""

from __future__ import annotations

import re

from trueup.rules.break_logs import break_line
from trueup.rules.breaks import break_evidence, break_kind, breaks, times
from trueup.rules.compilation import compile_calls
from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import errors, places
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import GraphBreak, Record

USER_CODE = re.compile(r"^from user code:\s*\n(.+?)(?:\n\s*\n|\Z)", re.M | re.S)


def detect(record: Record) -> Sighting | None:
    compile = record.actual.compile
    found = breaks(compile, "trainer")
    failures = [
        text for text in (*compile.failures, *traced(record)) if break_kind(GraphBreak(reason=text)) == "trainer"
    ]
    if not found and not failures:
        return None
    crashed = errors(record, r"_dynamo|Unsupported|TorchRuntimeError")
    return Sighting(
        message=f"Dynamo traced the trainer's own code: {times(found)} graph breaks and {len(failures)} failures.",
        evidence=(
            *break_evidence(found[:3]),
            *(Evidence(what="failure of Dynamo", value=text.strip()[:200]) for text in failures[:2]),
            *crashed,
            *places(compile_calls(record)[:1]),
        ),
        severity="error" if crashed else "warning",
    )


def traced(record: Record) -> tuple[str, ...]:
    """What Dynamo was tracing when it died: the frames that its errors quote as user code."""
    return tuple(match[1] for rank in record.ranks if rank.error for match in [USER_CODE.search(rank.error)] if match)


def detect_log(log: Log) -> Sighting | None:
    """Code of a trainer in what the break quotes."""
    seen = break_line(log, "trainer")
    if seen is None:
        return None
    return seen.sighting(log, "Dynamo traced the trainer's own code, its logging or its hooks.")


RULE = Rule(
    id="compile/trainer-internals-traced",
    title="Compiling a whole trainer module traces the framework's own code",
    layers=("compile", "trainer"),
    severity="warning",
    silent="Where Dynamo can go on, the step is split at each logging call.",
    cause="torch.compile was given the trainer's module, so logging and hooks are traced with the network.",
    remedies=(
        Remedy(
            id="compile-inner-network",
            kind="in-process",
            automatic=True,
            how="compile self.model, or its blocks, inside of the trainer's module",
        ),
    ),
    caution="Some frameworks compile their steps by design and keep logging out of the graph.",
    explains=("compile/requested-and-not-applied",),
    from_record=detect,
    from_log=detect_log,
)
