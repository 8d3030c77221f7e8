"""DDPOptimizer cannot split a graph that holds checkpoints or flex_attention."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule
from trueup.schema.finding import Remedy

RULE = Rule(
    id="compile/ddp-optimizer-higher-order-op",
    title="DDPOptimizer refuses graphs with higher-order operators",
    layers=("compile", "sharding", "checkpointing", "attention"),
    severity="error",
    silent="",
    cause=(
        "Checkpointed regions and flex_attention are higher-order operators, and the splitter that lines graphs up "
        "with "
        "DDP's buckets cannot cut around them before torch 2.7."
    ),
    remedies=(
        Remedy(id="upgrade-torch", kind="install", automatic=False, how="torch >= 2.7"),
        Remedy(
            id="ddp-optimizer-off",
            kind="in-process",
            automatic=True,
            how='torch._dynamo.config.optimize_ddp = False (one bucket, no overlap), or "python_reducer"',
        ),
    ),
    caution="Torch 2.7 and newer split such graphs: there the text must be in the log.",
    sources=("https://github.com/pytorch/pytorch/issues/104674",),
    log=(
        LogText(text="DDPOptimizer backend: Found a higher order op in the graph", versions="torch 2.1 to 2.6"),
        LogText(
            text="Please turn off DDP optimizer using torch._dynamo.config.optimize_ddp=False", versions="cut short"
        ),
        LogText(
            text="First bucket should be smaller/equal to other buckets to get comms warmed up ASAP",
            strength="supporting",
            versions="torch 2.13, with a tiny bucket_cap_mb",
            types=("AssertionError",),
        ),
    ),
)
