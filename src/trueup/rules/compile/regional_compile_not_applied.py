"""Regional compilation was asked for, and the calls bypass the compiled blocks."""

from __future__ import annotations

from trueup.rules.compilation import coverage, no_frame_seen
from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, asked, is_on, places, switched
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    regions = applied(record, "compile_regions")
    wanted = bool(regions) or is_on(asked(record, "compile", "regional"))
    if not wanted or switched(record, "compile") or not no_frame_seen(record):
        return None
    return Sighting(
        message=f"Regional compilation was requested, and Dynamo saw no frame in {record.steps.count} steps.",
        evidence=(
            Evidence(what="frames that Dynamo started to compile", value=0),
            *coverage(record.actual.compile),
            *places(regions),
        ),
        confidence="established" if regions else "likely",
    )


RULE = Rule(
    id="compile/regional-compile-not-applied",
    title="Regional compilation runs the uncompiled model",
    layers=("compile", "precision", "sharding", "trainer"),
    severity="warning",
    silent="Nothing fails and nothing is printed; speed equals eager.",
    cause=(
        "compile_regions copies the module's __dict__, so a forward that was patched onto the instance "
        "before (autocast wrapper, accelerate hook) stays bound to the original module and its uncompiled "
        "blocks."
    ),
    remedies=(
        Remedy(
            id="compile-blocks-in-place",
            kind="in-process",
            automatic=True,
            how="block.compile() for each block before accelerator.prepare and before hooks are added",
        ),
        Remedy(
            id="upgrade-accelerate",
            kind="install",
            automatic=False,
            how="accelerate >= 1.15 (mixed-precision case; a hook on the root still does it)",
        ),
    ),
    caution="Zero frames is the evidence; slow speed alone is not.",
    sources=(
        "https://github.com/huggingface/accelerate/issues/4253",
        "https://github.com/bghira/SimpleTuner/pull/3147",
    ),
    explains=("compile/requested-and-not-applied", "trainer/compile-flag-without-effect"),
    from_record=detect,
)
