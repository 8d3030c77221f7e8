"""Compiling the whole model unrolls every block, so the first step takes minutes."""

from __future__ import annotations

from trueup.rules.compilation import compile_calls
from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import percent, places
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record

LEAST_SECONDS = 5.0
LEAST_SHARE = 0.25


def detect(record: Record) -> Sighting | None:
    whole = tuple(call for call in compile_calls(record) if call.detail.get("whole_model"))
    blocks = max((int(call.detail.get("blocks_inside") or 0) for call in whole), default=0)
    seconds, duration = record.actual.compile.seconds, record.duration_s
    if blocks < 4 or seconds is None or not duration:
        return None
    if seconds < LEAST_SECONDS or seconds < LEAST_SHARE * duration:
        return None
    return Sighting(
        message=f"Compiling the whole model, {blocks} blocks unrolled, took {seconds:.0f} s, "
        f"{percent(min(1.0, seconds / duration))} of the run.",
        evidence=(
            Evidence(what="seconds spent compiling", value=round(seconds, 1)),
            Evidence(what="seconds of the run", value=round(duration, 1)),
            Evidence(what="blocks inside of the compiled module", value=blocks),
            *places(whole[:1]),
        ),
    )


RULE = Rule(
    id="compile/whole-model-cold-start",
    title="Whole-model compile unrolls every block before the first step",
    layers=("compile",),
    severity="note",
    silent="Minutes without output before the first step look like loading.",
    cause=(
        "torch.compile(model) inlines the loop over identical blocks into one graph, so the same code is "
        "compiled once per block."
    ),
    remedies=(
        Remedy(
            id="compile-per-block",
            kind="in-process",
            automatic=True,
            how="for block in blocks: block.compile(), so that one graph serves all of them",
        ),
    ),
    caution="No fault where compiling is a small share of the run, or where fusion across blocks measures faster.",
    residual=True,
    from_record=detect,
)
