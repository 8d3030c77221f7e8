"""A batch-size finder compiles the model for every size it tries."""

from __future__ import annotations

from trueup.rules.compilation import compile_asked
from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.facts import applied, argument
from trueup.rules.guards import storms
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    searches = applied(record, "find_executable_batch_size")
    if not (searches or argument(record, "auto_find_batch_size")) or not compile_asked(record):
        return None
    compile = record.actual.compile
    count = sum(storm.count for storm in storms(compile, "size"))
    if not count:
        return None
    return Sighting(
        message=f"A batch-size finder is active with compile: {count} recompiles for new sizes.",
        evidence=(
            Evidence(what="recompiles for new sizes", value=count, at=searches[0].at if searches else None),
            Evidence(what="seconds spent compiling", value=compile.seconds),
        ),
        confidence="likely",
    )


RULE = Rule(
    id="memory/batch-size-search-recompiles",
    title="Automatic batch-size search compiles every candidate",
    layers=("memory", "compile", "trainer"),
    severity="warning",
    silent="",
    cause="Each size that is tried compiles again, and attempts that failed leave memory and graphs behind.",
    remedies=(
        Remedy(
            id="search-batch-size-uncompiled",
            kind="code",
            automatic=False,
            how="find the size with the uncompiled model, then compile once; torch._dynamo.reset() between attempts",
        ),
    ),
    caution="Only where a batch-size finder and compile are active together.",
    explains=("compile/recompile-dynamic-shape",),
    from_record=detect,
    log=(
        LogText(
            text="No executable batch size found, reached zero",
            strength="supporting",
            versions="accelerate, with compile in the traceback",
            inside=("torch/_dynamo/", "torch/_inductor/"),
        ),
    ),
)
