"""CUDA graphs are recorded anew for each input size."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.log_facts import mention
from trueup.schema.finding import Remedy
from trueup.schema.log import Log

RECORDED = (
    r"CUDAGraph supports dynamic shapes by recording a new graph for each distinct input size"
    r"(?:[^\n]*We have observed (?P<sizes>\d+) distinct sizes)?"
)
FEW = 8


def detect_log(log: Log) -> Sighting | None:
    """The number of sizes that the warning gives decides; a handful is fine."""
    seen = mention(log, RECORDED)
    if seen is None:
        return None
    sizes = int(seen.found["sizes"]) if seen.found["sizes"] else None
    if sizes is not None and sizes < FEW:
        return None
    return Sighting(
        message=f"CUDA graphs were recorded for {sizes or 'many'} input sizes.",
        evidence=(seen.evidence(log),),
        failure=seen.failure,
    )


RULE = Rule(
    id="compile/cudagraph-rerecord-per-shape",
    title="A CUDA graph is recorded for every new input size",
    layers=("compile", "trainer"),
    severity="warning",
    silent="One warning; time and memory go into recording, and the promised speed-up is gone.",
    cause="A CUDA graph holds for one set of sizes, so under dynamic shapes one is recorded for each size that occurs.",
    remedies=(
        Remedy(
            id="bucket-lengths",
            kind="in-process",
            automatic=True,
            how="pad to a few lengths (pad_to_multiple_of in the collator)",
        ),
        Remedy(
            id="skip-dynamic-cudagraphs",
            kind="in-process",
            automatic=True,
            how="torch._inductor.config.triton.cudagraph_skip_dynamic_graphs = True",
        ),
        Remedy(
            id="compile-without-cudagraphs",
            kind="in-process",
            automatic=True,
            how="mode='default' or 'max-autotune-no-cudagraphs' in torch.compile",
        ),
    ),
    caution="A handful of sizes is fine: judge by the number that the message gives.",
    from_log=detect_log,
)
