"""A graph break inside of a checkpointed region makes Dynamo give up the whole region."""

from __future__ import annotations

from trueup.rules.breaks import break_evidence, break_text, times
from trueup.rules.compilation import coverage, effect
from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import taken_out
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import GraphBreak, Record

OPERATOR = "torch.utils.checkpoint.checkpoint"
UNNAMED = "a higher-order operator"


def detect(record: Record) -> Sighting | None:
    compile = record.actual.compile
    found = tuple(each for each in compile.breaks if inside_checkpoint(each, record))
    if not found or taken_out(record, "compile"):
        return None
    return Sighting(
        message=f"{times(found)} graph breaks inside of checkpointed regions made Dynamo run those regions eager"
        f"{effect(compile)}.",
        evidence=(
            *break_evidence(found),
            Evidence(what="frames that Dynamo started to compile", value=compile.frames),
            Evidence(what="graphs", value=compile.graphs),
            *coverage(compile),
        ),
    )


def inside_checkpoint(graph_break: GraphBreak, record: Record) -> bool:
    """True when Dynamo was tracing a checkpoint as one operator: it says so, or an operator that it leaves unnamed can
    be nothing else, since the region ran eager and called a checkpoint."""
    if graph_break.inside == UNNAMED:
        return record.actual.checkpointing.calls > 0
    return graph_break.inside == OPERATOR or f"Higher Order Operator: {OPERATOR}" in break_text(graph_break)


RULE = Rule(
    id="checkpointing/compiled-region-falls-back-to-eager",
    title="Graph break inside a checkpointed region makes the whole block eager",
    layers=("compile", "checkpointing", "sharding"),
    severity="warning",
    silent="Compile is on and nothing is printed at the default log level.",
    cause=(
        "Dynamo traces a checkpointed region as one operator; any break in it makes Dynamo give up the "
        "region and run it eager."
    ),
    remedies=(
        Remedy(
            id="remove-break-in-checkpoint",
            kind="code",
            automatic=False,
            how="remove the line that breaks, or keep the module that holds it out of the checkpoint",
        ),
        Remedy(
            id="checkpoint-around-compile",
            kind="in-process",
            automatic=True,
            how="checkpoint(compile(block)) instead of compile(checkpoint(block)): partial graphs are kept",
        ),
    ),
    caution="Zero graphs can also mean that compile was never applied; the break says that Dynamo saw the frame.",
    sources=("https://github.com/pytorch/torchtitan/pull/1895",),
    explains=(
        "compile/requested-and-not-applied",
        "compile/untraceable-python-in-model-code",
        "compile/scalar-extraction-graph-break",
        "compile/data-dependent-branch-graph-break",
        "compile/pybind-kernel-graph-break",
    ),
    from_record=detect,
)
