"""Compilation was asked for, and no part of the model ran compiled; no rule knows why."""

from __future__ import annotations

from trueup.rules.compilation import (
    compile_asked,
    compile_calls,
    coverage,
    flags_on,
    no_frame_seen,
    nothing_compiled,
    switched_off,
)
from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import listed, places
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Applied, Record


def detect(record: Record) -> Sighting | None:
    if not compile_asked(record) or not nothing_compiled(record):
        return None
    compile = record.actual.compile
    calls = compile_calls(record)
    off = switched_off(record)
    earlier = [sample for sample in record.samples if (sample.fraction or 0.0) > 0.0 and not sample.compiled_during]
    another = bool(earlier) and not compile.limits and not compile.holders
    number = "1 compile call" if len(calls) == 1 else f"{len(calls)} compile calls"
    what = number if calls else listed(flags_on(record))
    hint = f" ({listed(off)})" if off else ""
    unused = _unused(record, calls) if not another and not off else None
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
        cause=unused[0] if unused else "",
        remedies=(unused[1],) if unused else (),
        severity="note" if another else None,  # the model that trains now was never asked to be compiled
    )


def _unused(record: Record, calls: tuple[Applied, ...]) -> tuple[str, Remedy] | None:
    """Why no compiled callable was ever called, and the line that calls it; None where compilation was tried.

    Calls that a library made for a setting of its own are not the user's to write otherwise.
    """
    compile = record.actual.compile
    mine = [call for call in calls if not call.detail.get("by")]
    if not mine or len(mine) < len(calls) or not no_frame_seen(record) or compile.failures:
        return None
    first = mine[0]
    at = f" at {first.at}" if first.at else ""
    if all(call.event == "Module.compile" for call in mine):
        return (
            f"model.compile(){at} compiles what model(...) calls; the step calls model.forward(...) or another method, "
            "or another object, so that Dynamo never saw a frame.",
            Remedy(
                id="call-the-compiled-module",
                kind="code",
                automatic=False,
                how=f"call the {first.module or 'module'} itself, model(...), on which .compile() was called{at}",
            ),
        )
    return (
        f"torch.compile(model){at} changes nothing in place: it returns another callable, which was dropped or is not "
        "what the step calls, so that Dynamo never saw a frame.",
        Remedy(
            id="use-what-compile-returns",
            kind="code",
            automatic=False,
            how=f"model = torch.compile(model){at} and train that model, or model.compile(), which works in place",
        ),
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
