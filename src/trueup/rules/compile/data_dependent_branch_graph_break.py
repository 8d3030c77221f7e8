"""A Python branch on tensor contents ends the graph."""

from __future__ import annotations

from trueup.rules.break_logs import break_line
from trueup.rules.breaks import break_evidence, break_severity, breaks, times
from trueup.rules.compilation import effect
from trueup.rules.definition import Rule, Sighting
from trueup.schema.finding import Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    found = breaks(record.actual.compile, "branch")
    if not found:
        return None
    return Sighting(
        message=f"A branch on tensor contents broke the graph {times(found)} times{effect(record.actual.compile)}.",
        evidence=break_evidence(found),
        severity=break_severity(record, found),
    )


def detect_log(log: Log) -> Sighting | None:
    """Dynamo says so in these words since torch 2.7; older releases name the jump."""
    seen = break_line(log, "branch")
    if seen is None:
        return None
    return seen.sighting(log, "The graph breaks at a Python branch on the values of a tensor.")


RULE = Rule(
    id="compile/data-dependent-branch-graph-break",
    title="Python branch on tensor data breaks the graph",
    layers=("compile", "attention", "trainer"),
    severity="warning",
    silent="Dynamo counts it under another name than graph breaks, so the simple counters show zero.",
    cause=(
        "Control flow that depends on values does not fit into one graph. With flash attention it is the "
        "test whether position ids describe a packed row, or whether the mask is all ones."
    ),
    remedies=(
        Remedy(
            id="read-boundaries-once",
            kind="in-process",
            automatic=True,
            how=(
                "have the collator pass cu_seq_lens_q/k and max_length_q/k, so that no test is made: "
                "DataCollatorWithFlattening(return_flash_attn_kwargs=True)"
            ),
        ),
        Remedy(
            id="move-branch-out",
            kind="code",
            automatic=False,
            how="take the branch out of the compiled part, or use torch.cond or torch.where",
        ),
    ),
    caution="Count breaks from the reasons that Dynamo writes, not from counters['graph_break'].",
    sources=("https://github.com/huggingface/transformers/pull/37332",),
    from_record=detect,
    from_log=detect_log,
)
