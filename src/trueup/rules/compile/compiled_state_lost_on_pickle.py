"""Modules were compiled in place, and the model that trains holds no compiled call any more."""

from __future__ import annotations

from trueup.rules.compilation import coverage
from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, places, switched, trained
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    compile = record.actual.compile
    calls = applied(record, "Module.compile")
    if not calls or compile.holders != 0 or switched(record, "compile") or not trained(record):
        return None
    if applied(record, "torch.compile") or compile.fraction not in (0.0, None):
        return None
    return Sighting(
        message=f"{len(calls)} modules were compiled in place, and no module of the model that trains holds a compiled "
        "call: it was pickled, loaded or copied afterwards.",
        evidence=(
            Evidence(what="modules that hold a compiled call at the last look", value=0),
            *coverage(compile),
            *places(calls[:2]),
        ),
        confidence="established" if compile.fraction == 0.0 else "likely",
    )


RULE = Rule(
    id="compile/compiled-state-lost-on-pickle",
    title="In-place compiled module is eager after pickling or deepcopy",
    layers=("compile", "trainer"),
    severity="warning",
    silent="The first part of a job runs compiled, the part after loading or copying runs eager with equal losses.",
    cause="The state that module.compile() sets is dropped when a module is pickled or deep-copied.",
    remedies=(
        Remedy(
            id="compile-after-loading",
            kind="in-process",
            automatic=True,
            how="save the state_dict and rebuild, and call compile() after loading or copying",
        ),
    ),
    caution="The wrapper that torch.compile(module) returns keeps its compiled state.",
    explains=("compile/requested-and-not-applied",),
    from_record=detect,
)
