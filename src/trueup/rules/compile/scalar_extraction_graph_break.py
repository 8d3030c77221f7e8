"""A tensor becomes a Python number inside the compiled region."""

from __future__ import annotations

from trueup.rules.break_logs import break_line
from trueup.rules.breaks import break_evidence, break_severity, break_text, breaks, times
from trueup.rules.compilation import effect
from trueup.rules.definition import Rule, Sighting
from trueup.schema.finding import Remedy
from trueup.schema.log import Log
from trueup.schema.record import GraphBreak, Record

UNPADDED = Remedy(
    id="read-boundaries-once",
    kind="in-process",
    automatic=True,
    how="trueup.attention.use_attention(model): attention of Hugging Face models that counts no tokens in a graph",
)


def detect(record: Record) -> Sighting | None:
    found = breaks(record.actual.compile, "scalar")
    if not found:
        return None
    # An operator whose output size is data (nonzero) is near this class, but needs another switch than item().
    shapes_only = all("Dynamic shape operator" in break_text(each) for each in found)
    return Sighting(
        message=f"A tensor was turned into a Python value in the compiled region {times(found)} times, which ends the "
        f"graph{effect(record.actual.compile)}.",
        evidence=break_evidence(found),
        confidence="likely" if shapes_only else "established",
        severity=break_severity(record, found),
        remedies=(UNPADDED, *RULE.remedies) if any(_unpads(each) for each in found) else (),
    )


def _unpads(graph_break: GraphBreak) -> bool:
    """Whether flash attention of transformers counts real tokens there: the switch alone leaves breaks."""
    return "modeling_flash_attention_utils" in break_text(graph_break)


def detect_log(log: Log) -> Sighting | None:
    """item(), tolist() or a shape that depends on data."""
    seen = break_line(log, "scalar")
    if seen is None:
        return None
    return seen.sighting(log, "The graph breaks where a tensor becomes a Python number.")


RULE = Rule(
    id="compile/scalar-extraction-graph-break",
    title="Tensor converted to a Python scalar inside the compiled region",
    layers=("compile", "attention", "sharding", "trainer"),
    severity="warning",
    silent="Without fullgraph the code goes on in several graphs.",
    cause="The value is data: Dynamo has to stop the graph at item(), tolist() or int(tensor) to learn it.",
    remedies=(
        Remedy(
            id="capture-scalar-outputs",
            kind="env-var",
            automatic=True,
            how="TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS=1",
        ),
        Remedy(
            id="compute-scalar-outside",
            kind="code",
            automatic=False,
            how="compute the number before the compiled call (the collator knows the lengths), or keep it a tensor",
        ),
    ),
    caution="torch 2.13 captures item() under fullgraph=True even with the switch off; no error there proves nothing.",
    sources=("https://github.com/PrimeIntellect-ai/prime-rl/issues/996",),
    from_record=detect,
    from_log=detect_log,
)
