"""An input comes sometimes as the pending result of a collective and sometimes as a plain tensor."""

from __future__ import annotations

import re

from trueup.rules.compilation import effect
from trueup.rules.definition import Rule, Sighting
from trueup.rules.recompile_logs import Storm, limits_of, reasons_of
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record

PENDING = re.compile(r"\bAsyncCollectiveTensor\b")
INPUT = re.compile(r"expected type of '(?P<found>[^']+)'|___check_type_id\((?P<checked>[^,]+),")


def detect(record: Record) -> Sighting | None:
    compile = record.actual.compile
    seen = [each for each in compile.recompiles if PENDING.search(each.reason)]
    if not seen:
        return None
    count = sum(each.count for each in seen)
    named = INPUT.search(seen[0].reason)
    source = f"'{named['found'] or named['checked']}'" if named else "an input"
    function = seen[0].function or "a function"
    limited = any(limit.function == seen[0].function for limit in compile.limits)
    return Sighting(
        message=f"{function} was compiled again {count} {'time' if count == 1 else 'times'} because {source} came "
        f"sometimes as a pending result of a collective, sometimes as a plain tensor{effect(compile)}.",
        evidence=tuple(
            Evidence(what=f"recompiles of {each.function or 'a function'}", value=each.count, at=each.at)
            for each in seen
        ),
        severity="warning" if limited or count > 1 else "note",
    )


def detect_log(log: Log) -> Sighting | None:
    """A guard on a type that names the pending tensor, which no other class does."""
    reasons = tuple(each for each in reasons_of(log) if PENDING.search(each.guard.text))
    limit = next((each for each in limits_of(log) if each.reason and PENDING.search(each.reason)), None)
    if limit is None and not reasons:
        return None
    found = Storm(log, limit, reasons)
    return found.sighting(
        "an input came sometimes as a pending result of a collective, sometimes as a plain tensor",
        confidence="established",
        severity=None if found.repeated or found.count > 1 else "note",
        specificity=1100,
    )


RULE = Rule(
    id="compile/recompile-async-collective-tensor",
    title="Input alternates between awaited and pending collective tensors",
    layers=("compile", "sharding"),
    severity="warning",
    silent="The first call with the other kind of tensor is slow, nothing else shows.",
    cause=(
        "Functional collectives return an AsyncCollectiveTensor that waits when it is used; Dynamo guards on the type "
        "of an input, so the same value awaited earlier, or passed on by a block, needs a graph of its own."
    ),
    remedies=(
        Remedy(
            id="wait-before-region",
            kind="in-process",
            automatic=True,
            how="x = torch.distributed._functional_collectives.wait_tensor(x) before the compiled call, in every step",
        ),
        Remedy(
            id="collective-inside-region",
            kind="code",
            automatic=False,
            how="call the collective inside of the compiled function, whose graph then waits by itself",
        ),
    ),
    caution="Only with functional collectives (tensor parallelism, DTensor) in the path.",
    explains=("compile/recompile-limit-reached",),
    from_record=detect,
    from_log=detect_log,
)
