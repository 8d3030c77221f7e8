"""The forward of a LoRA layer cannot be traced."""

from __future__ import annotations

from trueup.rules.break_logs import break_lines
from trueup.rules.definition import Rule, Sighting
from trueup.schema.finding import Remedy
from trueup.schema.log import Log


def detect_log(log: Log) -> Sighting | None:
    """A break whose code is that of peft's layers."""
    for each in break_lines(log):
        frame = each.user
        if frame is not None and "peft/tuners/" in frame.file.replace("\\", "/"):
            return each.sighting(
                log,
                f"The graph breaks in the forward of an adapter layer, {frame.file.rpartition('/')[2]}:{frame.line}.",
            )
    return None


RULE = Rule(
    id="adapter/lora-forward-graph-break",
    title="Adapter selection logic breaks the compiled graph",
    layers=("adapter", "compile"),
    severity="warning",
    silent="Without fullgraph each LoRA layer only adds a graph break.",
    cause=(
        "The LoRA forward of older peft loops over active adapters with conditions (disabled, merged, mixed batch) "
        "that "
        "Dynamo cannot trace."
    ),
    remedies=(
        Remedy(id="upgrade-peft", kind="install", automatic=False, how="pip install -U 'peft>=0.15' 'torch>=2.5'"),
        Remedy(
            id="single-active-adapter",
            kind="code",
            automatic=False,
            how="one active adapter and no fullgraph=True; merge_and_unload() for inference",
        ),
    ),
    caution="Batches over several adapters, and hot-swapping, still compile once per set of adapters.",
    sources=("https://github.com/huggingface/peft/issues/1199",),
    from_log=detect_log,
)
