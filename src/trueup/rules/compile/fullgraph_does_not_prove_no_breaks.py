"""A compile with fullgraph=True passed, and the same class breaks at a scalar without it."""

from __future__ import annotations

from trueup.rules.breaks import break_evidence, break_text, breaks, times
from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, places
from trueup.schema.finding import Remedy
from trueup.schema.record import Applied, Record

COMPILES = ("torch.compile", "Module.compile")


def detect(record: Record) -> Sighting | None:
    compile = record.actual.compile
    found = [each for each in breaks(compile, "scalar") if "ynamic shape operator" not in break_text(each)]
    if not found or compile.failures:  # a failure may be that of fullgraph, which then said what it is there to say
        return None
    strict, others = compiled(record, fullgraph=True), compiled(record, fullgraph=False)
    names = {each.module for each in others}
    passed = [each for each in strict if each.module and each.module in names]
    if not passed:
        return None
    return Sighting(
        message=f"fullgraph=True raised nothing for {passed[0].module}, which without it breaks {times(found)} times "
        "at a tensor that becomes a Python number.",
        evidence=(
            *places(passed[:1], "compiled with fullgraph=True"),
            *places([each for each in others if each.module == passed[0].module][:1], "compiled without it"),
            *break_evidence(found),
        ),
        confidence="possible",  # the record does not tell whether the strict one was called
    )


def compiled(record: Record, *, fullgraph: bool) -> list[Applied]:
    return [each for each in applied(record, *COMPILES) if bool(each.detail.get("fullgraph")) is fullgraph]


RULE = Rule(
    id="compile/fullgraph-does-not-prove-no-breaks",
    title="A check with fullgraph=True captures what the normal run breaks on",
    layers=("compile",),
    severity="note",
    silent="The check with fullgraph=True passes; that the run has several graphs is told nowhere.",
    cause=(
        "Under fullgraph=True torch traces item() and its like, although capture_scalar_outputs is off; without it the "
        "same call ends the graph. The flag changes what is traced and does not only check it."
    ),
    remedies=(
        Remedy(
            id="same-capture-in-both",
            kind="code",
            automatic=False,
            how=(
                "torch._dynamo.config.capture_scalar_outputs = True (or False) in the check and in the run; "
                "count graphs and breaks of the configuration that will run"
            ),
        ),
    ),
    caution=(
        "It matters only where fullgraph=True is used to look for breaks. Within one process the graph that was made "
        "under fullgraph=True is used again while its guards hold: the break shows with the next shape, or in "
        "another run."
    ),
    sources=("https://github.com/pytorch/pytorch/issues/196198",),
    from_record=detect,
)
