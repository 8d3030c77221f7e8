"""Training runs the compiled model, evaluation another object or the module beneath, which is eager."""

from __future__ import annotations

from trueup.rules.compilation import compile_calls, effect
from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import places, taken_out
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    compile = record.actual.compile
    if not compile.evaluated_eager or taken_out(record, "compile"):
        return None
    return Sighting(
        message=f"Training ran compiled{effect(compile)}, and evaluation ran {compile.evaluated_eager} parts eager.",
        evidence=(
            Evidence(what="blocks that trained compiled and were evaluated eager", value=compile.evaluated_eager),
            *places(compile_calls(record)[:1]),
        ),
        confidence="likely",
    )


RULE = Rule(
    id="trainer/evaluation-runs-uncompiled-model",
    title="Evaluation uses another, uncompiled model object",
    layers=("compile", "trainer"),
    severity="note",
    silent="Evaluation is only slower, and its numbers differ in the last digits.",
    cause="The compiled wrapper serves the training step, and evaluation is given the module that it was made from.",
    remedies=(
        Remedy(
            id="compile-in-place",
            kind="in-process",
            automatic=True,
            how="model.compile() instead of compiled = torch.compile(model): there is one object only",
        ),
    ),
    caution="Small numeric differences between eager and compiled code are normal; a rare evaluation may stay eager.",
    from_record=detect,
)
