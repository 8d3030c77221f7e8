"""The partitioner of AOTAutograd cannot place a node."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule
from trueup.schema.finding import Remedy

RULE = Rule(
    id="compile/aot-partitioner-invalid-node",
    title="AOT partitioner produces an invalid output node",
    layers=("compile", "adapter"),
    severity="error",
    silent="",
    cause=(
        "The min-cut partitioner cannot place a node that may be recomputed and is an output too, as adapters, "
        "checkpoints "
        "and dynamic slices make it."
    ),
    remedies=(
        Remedy(
            id="compile-per-block",
            kind="in-process",
            automatic=True,
            how="for block in blocks: block.compile(), or compile before get_peft_model",
        ),
        Remedy(
            id="no-dynamic-slices",
            kind="code",
            automatic=False,
            how="take dynamic slicing and the checkpoint out of the compiled module, or leave that module eager",
        ),
        Remedy(id="upgrade-torch", kind="install", automatic=False, how="a newer torch than the one that raises"),
    ),
    caution="An internal assertion with several causes: report the subgraph.",
    log=(LogText(text="was invalid, but is output", versions="torch 2.0 and newer"),),
)
