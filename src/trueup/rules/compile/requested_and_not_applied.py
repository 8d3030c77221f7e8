"""Compilation was asked for, and no part of the model ran compiled; no rule knows why."""

from __future__ import annotations

from trueup.rules.compilation import (
    compile_asked,
    compile_calls,
    coverage,
    flags_on,
    nothing_compiled,
    switched_off,
)
from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import listed, places
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    if not compile_asked(record) or not nothing_compiled(record):
        return None
    compile = record.actual.compile
    calls = compile_calls(record)
    off = switched_off(record)
    earlier = [sample for sample in record.samples if (sample.fraction or 0.0) > 0.0 and not sample.compiled_during]
    another = bool(earlier) and not compile.limits and not compile.holders
    what = f"{len(calls)} compile calls" if calls else listed(flags_on(record))
    hint = f" ({listed(off)})" if off else ""
    return Sighting(
        message=f"Compilation was requested by {what}, and 0 % of the parameters ran compiled{hint}; Dynamo saw "
        f"{compile.frames} frames and made {compile.graphs} graphs."
        + (f" In step {earlier[-1].step} compiled code still ran: another model came after it." if another else ""),
        evidence=(
            *coverage(compile),
            Evidence(what="frames that Dynamo started to compile", value=compile.frames),
            Evidence(what="graphs", value=compile.graphs),
            *(Evidence(what="compiler switched off by", value=each) for each in off),
            *(Evidence(what="failure of Dynamo", value=text[:200]) for text in compile.failures[:2]),
            *places(calls[:2]),
        ),
        severity="note" if another else None,  # the model that trains now was never asked to be compiled
    )


RULE = Rule(
    id="compile/requested-and-not-applied",
    title="Compilation was requested and nothing ran compiled",
    layers=("compile",),
    severity="warning",
    silent="torch.compile is lazy: the call succeeds, and what it could not compile runs eager.",
    cause=(
        "The compiled callable is never called, the compiler is switched off, or every attempt ended in a "
        "break or a failure; the evidence tells which."
    ),
    remedies=(
        Remedy(
            id="show-compile-log",
            kind="env-var",
            automatic=False,
            how="TORCH_LOGS=graph_breaks,recompiles prints each reason",
        ),
    ),
    caution="Only a sampled steady step proves it; a function compiled on purpose without the model is no fault.",
    residual=True,
    from_record=detect,
)
