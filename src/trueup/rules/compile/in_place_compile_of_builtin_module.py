"""Module.compile on a class of torch.nn compiles nothing."""

from __future__ import annotations

from trueup.rules.compilation import compile_calls
from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, listed, places, switched, trained
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    calls = tuple(call for call in applied(record, "Module.compile") if call.detail.get("builtin"))
    compile = record.actual.compile
    if not calls or switched(record, "compile") or not trained(record):
        return None
    classes = tuple(dict.fromkeys(call.module or "a torch.nn module" for call in calls))
    eager = {name: compile.eager_modules[name] for name in classes if name in compile.eager_modules}
    unseen = compile.frames == 0 and compile.graphs == 0 and compile.fraction is not None
    only_these = len(calls) == len(compile_calls(record))
    if not (unseen or (eager and only_these)):
        return None
    return Sighting(
        message=f"{listed(classes)}.compile() compiled nothing: {len(calls)} in-place calls, "
        f"{compile.frames} frames seen by Dynamo.",
        evidence=(
            Evidence(what="frames that Dynamo started to compile", value=compile.frames),
            *(Evidence(what=f"eager calls of {name} in the last sampled step", value=n) for name, n in eager.items()),
            *places(calls[:3]),
        ),
        confidence="established" if unseen else "likely",
    )


RULE = Rule(
    id="compile/in-place-compile-of-builtin-module",
    title="In-place compile of a stock torch.nn module compiles nothing",
    layers=("compile",),
    severity="warning",
    silent="The call returns, the module runs eager, and there is no message.",
    cause=(
        "Dynamo skips frames of torch's own module files when they are outermost, and module.compile() of such "
        "a class, or of a subclass that inherits its forward, makes exactly such a frame the entry."
    ),
    remedies=(
        Remedy(
            id="compile-by-wrapper",
            kind="in-process",
            automatic=True,
            how="module = torch.compile(module), or compile a module of your own that contains it",
        ),
    ),
    caution="Subclasses with a forward of their own compile; so does torch.compile(module).",
    explains=("compile/requested-and-not-applied",),
    from_record=detect,
)
