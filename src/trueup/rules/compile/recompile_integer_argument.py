"""A Python integer that differs from batch to batch is compiled in as a constant."""

from __future__ import annotations

from trueup.rules.compilation import effect, storm_evidence
from trueup.rules.definition import Rule, Sighting
from trueup.rules.expression import Expression
from trueup.rules.facts import listed
from trueup.rules.guards import Storm as FunctionStorm
from trueup.rules.guards import storms
from trueup.rules.log_facts import mention
from trueup.rules.recompile_logs import Storm, limits_of, storm
from trueup.schema.finding import Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record

LIST_INDEX = Expression(r"variables/lists\.py:\d+ in getitem_const")
TABLE_IN_A_TENSOR = Remedy(
    id="table-in-a-tensor",
    kind="code",
    automatic=False,
    how="keep the table in a tensor (register_buffer) and index it with a tensor of one dimension, table[t.view(1)], "
    "as a 0-d one is a graph break; or look the value up outside of the compiled function and pass it in",
)


def detect(record: Record) -> Sighting | None:
    compile = record.actual.compile
    found = storms(compile, "integer", at_least=3)
    if not found:
        return None
    indexes = all(_picks_from_list(storm) for storm in found)
    return Sighting(
        message=f"{found[0].function} was compiled again {found[0].count} times because the integer "
        f"{listed(found[0].sources) or 'argument'} differs from call to call{effect(compile)}.",
        evidence=storm_evidence(found, compile),
        cause="The integer picks an entry of a Python list, and which entry is a constant of the graph; dynamic shapes "
        "do not change that."
        if indexes
        else "",
        remedies=(TABLE_IN_A_TENSOR,) if indexes else (),
    )


def _picks_from_list(storm: FunctionStorm) -> bool:
    """True when each guard after the first, which is static in any case, comes from an index into a list."""
    later = storm.recompiles[1:]
    return bool(later) and all(LIST_INDEX.search(each.reason) for each in later)


FLEX = r"[Ff]lex_?[Aa]ttention"


def detect_log(log: Log) -> Sighting | None:
    """A guard on the value of an int argument."""
    found = storm(log, "integer")
    if found is not None:
        return found.sighting(f"the integer {found.sources[0]} is guarded by value")
    for limit in limits_of(log):
        if limit.guard is None and mention(log, FLEX) is not None:
            return Storm(log, limit, ()).sighting(
                "FlexAttention takes numbers of blocks and lengths as integers; the log does not show the reason",
                confidence="possible",
                specificity=940,
            )
    return None


RULE = Rule(
    id="compile/recompile-integer-argument",
    title="A changing Python integer argument is guarded by value",
    layers=("compile", "attention"),
    severity="warning",
    silent="Slow steps, then eager ones after the limit; one log line.",
    cause=(
        "An integer made from the batch, such as max_seqlen or a number of blocks, enters the compiled "
        "function as a constant when shapes are static."
    ),
    remedies=(
        Remedy(
            id="constant-upper-bound",
            kind="code",
            automatic=False,
            how="pass a constant upper bound (the context length) or a bucketed value, or keep it a 0-d tensor",
        ),
        Remedy(
            id="automatic-dynamic-shapes",
            kind="in-process",
            automatic=True,
            how="leave dynamic unset or compile with dynamic=True",
        ),
    ),
    caution="An integer stored on a module is recompile-per-layer-attribute.",
    sources=("https://github.com/vllm-project/vllm/issues/27178",),
    explains=("compile/recompile-limit-reached", "compile/requested-and-not-applied"),
    from_record=detect,
    from_log=detect_log,
)
