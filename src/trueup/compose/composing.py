"""The composition: every layer in the order in which it works, and why it stands there."""

from __future__ import annotations

from typing import Any

from trueup.compose.blocks import blocks_of
from trueup.compose.checkpointing import checkpoint_blocks
from trueup.compose.compiling import compile_blocks
from trueup.compose.composed import Composed
from trueup.compose.plan import Plan
from trueup.compose.precision import autocast_forward
from trueup.compose.refusals import refuse
from trueup.compose.sharding import replicate, shard_fsdp1, shard_fsdp2
from trueup.compose.tensor_parallel import parallelize


def compose(model: Any, plan: Plan) -> Composed:
    """Apply `plan` to `model`: train `.model` of what is returned, with an optimizer made of its parameters after this.

    Raises ComposeError, before anything is changed, for a plan that cannot work on this model.
    """
    blocks = blocks_of(model, plan)
    refuse(model, plan, blocks)
    done = Composed(model, plan, blocks)

    # Tensor parallelism first: it swaps parameters and adds input and output hooks, which all that follows must see.
    if plan.tensor_parallel:
        parallelize(done)

    # Checkpointing before compile: the graph then holds the checkpoint as an operator that the partitioner sees into.
    # Compiled first, the checkpoint would run around an opaque region, and selective policies would see no operators.
    if plan.checkpointing:
        checkpoint_blocks(done)

    # Compile each block, in place: names and classes stay as they are, one graph serves blocks that are alike, and
    # before sharding, so that FSDP's hooks stay outside of the graph. Whole, they would break it within a loop.
    if plan.compile:
        compile_blocks(done)

    # Sharding after all that changes a block, since it is told of the parameters by the modules that are there then;
    # blocks before the root, which takes what is left. Here the parameters become others: the optimizer comes later.
    if plan.sharding == "fsdp2":
        shard_fsdp2(done)
    elif plan.sharding == "fsdp1":
        shard_fsdp1(done)
    elif plan.sharding == "ddp":
        replicate(done)

    # FSDP casts by its own policy, given above. All else needs autocast, outermost, so that all blocks share it. With
    # checkpoints it keeps no cast weights: a recomputation would find another state of that cache than the forward had.
    if plan.precision != "fp32" and plan.sharding not in ("fsdp1", "fsdp2"):
        autocast_forward(done)

    return done.sealed()
