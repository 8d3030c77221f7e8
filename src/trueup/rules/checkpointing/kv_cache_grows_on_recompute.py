"""The keys of a block are appended to the cache a second time when it is recomputed."""

from __future__ import annotations

from trueup.rules.checkpoint_errors import Difference, checkpoint_error
from trueup.rules.definition import Rule, Sighting
from trueup.schema.finding import Confidence, Remedy
from trueup.schema.log import Log

SEQUENCE = (-3, -2, -1)
"""Dimensions that can be the length: of keys [batch, heads, length, size], of scores, of keys before the transpose."""


def detect_log(log: Log) -> Sighting | None:
    """Tensors of four dimensions, alike but for a length that grew, typically to the double."""
    error = checkpoint_error(log)
    if error is None or any(each.emptied for each in error.differences):
        return None
    grown = [length for each in error.differences if (length := grown_length(each))]
    named = error.names(r"past_key_values?|DynamicCache|cache_utils\.py|key_cache")
    if not grown and not (named and not error.compiled):
        return None
    confidence: Confidence = "possible"
    if grown:
        doubled = any(again == 2 * saved for saved, again in grown)
        confidence = "established" if doubled or named else "likely"
    lengths = f" from {grown[0][0]} to {grown[0][1]}" if grown else ""
    return Sighting(
        message=f"The cached keys grew{lengths} when the block was recomputed: the KV cache was on.",
        evidence=error.evidence(),
        confidence=confidence,
        failure=error.failure,
        specificity=1050 if grown else 930,
    )


def grown_length(difference: Difference) -> tuple[int, int] | None:
    """Length in the forward and in the recomputation, of keys, values or scores that only grew in length."""
    saved, again = difference.saved, difference.again
    if len(saved.shape) not in (3, 4) or saved.dtype != again.dtype or len(difference.resized) != 1:
        return None
    at = difference.resized[0]
    if at - len(saved.shape) not in SEQUENCE or again.shape[at] <= saved.shape[at]:
        return None
    # Routing moves single rows; a cache grows by a whole sequence.
    return (saved.shape[at], again.shape[at]) if 2 * again.shape[at] >= 3 * saved.shape[at] else None


RULE = Rule(
    id="checkpointing/kv-cache-grows-on-recompute",
    title="KV cache is appended again during recomputation",
    layers=("checkpointing", "trainer"),
    severity="error",
    silent="",
    cause=(
        "use_cache stays on while a block is checkpointed by an outside wrapper; the block then has state, and "
        "running it "
        "twice appends its keys twice."
    ),
    remedies=(
        Remedy(
            id="disable-kv-cache",
            kind="in-process",
            automatic=True,
            how="model.config.use_cache = False whenever blocks are checkpointed",
        ),
        Remedy(
            id="model-side-checkpointing",
            kind="in-process",
            automatic=False,
            how="model.gradient_checkpointing_enable(), which drops the cache itself, instead of a wrapper",
        ),
    ),
    caution=(
        "Without cached keys in the list it is another class; the warning that use_cache was set to False is the cure."
    ),
    from_log=detect_log,
)
