"""Hooks of accelerate that move tensors between devices end the graph at every hooked module."""

from __future__ import annotations

from trueup.rules.break_logs import break_line
from trueup.rules.breaks import break_evidence, break_kind, breaks, times
from trueup.rules.compilation import effect
from trueup.rules.definition import Rule, Sighting
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import GraphBreak, Record


def detect(record: Record) -> Sighting | None:
    compile = record.actual.compile
    found = breaks(compile, "device hook")
    failures = [text for text in compile.failures if break_kind(GraphBreak(reason=text)) == "device hook"]
    if not found and not failures:
        return None
    return Sighting(
        message=f"Device hooks of accelerate broke the graph {times(found)} times and failed it {len(failures)} times"
        f"{effect(compile)}.",
        evidence=(
            *break_evidence(found[:4]),
            *(Evidence(what="failure of Dynamo", value=text[:200]) for text in failures[:2]),
        ),
    )


def detect_log(log: Log) -> Sighting | None:
    """A hook of accelerate in the text of the break, or in the code that it quotes."""
    seen = break_line(log, "device hook")
    if seen is None:
        return None
    return seen.sighting(log, "The graph breaks at the hooks with which accelerate moves tensors between devices.")


RULE = Rule(
    id="compile/device-dispatch-hooks-graph-break",
    title="accelerate device-dispatch hooks break the compiled graph",
    layers=("compile", "trainer"),
    severity="warning",
    silent="",
    cause=(
        "A model loaded with a device_map or offload has hooks that move tensors inside forward; accelerate "
        "keeps them out of the compiler on purpose, so each ends the graph."
    ),
    remedies=(
        Remedy(
            id="remove-device-hooks",
            kind="in-process",
            automatic=True,
            how="load without device_map, or accelerate.hooks.remove_hook_from_submodules(model) before compiling",
        ),
    ),
    caution="A hook on the root under compile_regions is silent and another class: regional-compile-not-applied.",
    sources=("https://github.com/huggingface/accelerate/issues/2592",),
    explains=("compile/recompile-per-layer-attribute",),
    from_record=detect,
    from_log=detect_log,
)
