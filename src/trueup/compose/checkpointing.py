"""Activation checkpointing of the blocks, by torch's own wrapper, which state dicts do not show."""

from __future__ import annotations

from trueup.compose.blocks import replace_block
from trueup.compose.composed import Composed


def checkpoint_blocks(done: Composed) -> None:
    """Wrap every n-th block; the wrapper is the block from here on."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper

    asked = done.plan.checkpointing
    assert asked is not None
    options = {"context_fn": asked.context_fn} if asked.context_fn else {}
    chosen = list(done.blocks)[:: asked.every]
    for name in chosen:
        wrapped = checkpoint_wrapper(
            done.blocks[name],
            checkpoint_impl=CheckpointImpl.REENTRANT if asked.reentrant else CheckpointImpl.NO_REENTRANT,
            preserve_rng_state=asked.preserve_rng_state,
            **options,
        )
        replace_block(done.model, name, wrapped)
        done.blocks[name] = wrapped
    done.applied_layer("checkpointing", "reentrant" if asked.reentrant else "non-reentrant", len(chosen))
