"""Compiled code inside of an eager checkpoint saved other tensors when it ran again."""

from __future__ import annotations

from trueup.rules.checkpoint_errors import checkpoint_error
from trueup.rules.definition import Rule, Sighting
from trueup.schema.finding import Remedy
from trueup.schema.log import Log


def detect_log(log: Log) -> Sighting | None:
    """Sure with compiled code in the stack; a bare sentence leaves it the commonest of several causes."""
    error = checkpoint_error(log)
    if error is None or any(each.emptied for each in error.differences):
        return None
    if not error.compiled and not plausible(error.counts):
        return None
    return Sighting(
        message=(
            "Compiled code ran inside of a checkpoint and saved other tensors in the recomputation than in the forward."
            if error.compiled
            else "A recomputation saved other tensors than the forward; compiled code inside of a checkpoint does "
            "so, and "
            "the log does not show what ran."
        ),
        evidence=error.evidence(),
        confidence="established" if error.compiled else "possible",
        failure=error.failure,
        # Behind each class that the list of tensors names, but for compiled code that is in the stack.
        specificity=1000 if error.compiled else 950,
    )


def plausible(counts: tuple[int, int] | None) -> bool:
    """Another graph of the same code saves a few tensors more or fewer, not a multiple."""
    return counts is None or max(counts) < 2 * max(min(counts), 1)


RULE = Rule(
    id="checkpointing/compiled-code-inside-checkpoint-recompute-mismatch",
    title="Compiled code inside an eager checkpoint saves different tensors",
    layers=("checkpointing", "compile", "sharding"),
    severity="error",
    silent="",
    cause=(
        "Recomputation calls the compiled function again, which may choose or compile another variant (dynamic for "
        "static, "
        "another grad mode, DDP bucket or CUDA graph), and that saves another set of tensors."
    ),
    remedies=(
        Remedy(
            id="checkpoint-inside-compile",
            kind="in-process",
            automatic=False,
            how="checkpoint_wrapper on the block first, then block.compile(): the partitioner then sees the checkpoint",
        ),
        Remedy(
            id="mark-dynamic",
            kind="in-process",
            automatic=True,
            how="torch._dynamo.mark_dynamic(input, dimension) for what varies, before the first step",
        ),
        Remedy(
            id="no-dynamo-lru-cache",
            kind="in-process",
            automatic=True,
            how="torch._C._dynamo.eval_frame._set_lru_cache(False)",
        ),
        Remedy(
            id="no-determinism-check",
            kind="in-process",
            automatic=True,
            how='checkpoint(..., determinism_check="none"), last, when only metadata differs',
        ),
    ),
    caution=(
        "Read shapes and dtypes: [0] is ZeRO-3, a grown sequence dimension the KV cache, a few rows MoE routing, a "
        "dtype the "
        "autocast cache. The tip that torch prints names torch.compile in every case."
    ),
    sources=("https://github.com/pytorch/pytorch/issues/144035", "https://github.com/pytorch/pytorch/issues/144637"),
    from_log=detect_log,
)
