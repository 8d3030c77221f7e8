"""The recomputation finds another state of autocast's cache of cast weights."""

from __future__ import annotations

from trueup.rules.checkpoint_errors import CheckpointError, Difference, checkpoint_error
from trueup.rules.definition import Rule, Sighting
from trueup.rules.log_facts import mention
from trueup.rules.printed_dtypes import HALVES
from trueup.schema.finding import Remedy
from trueup.schema.log import Log


def detect_log(log: Log) -> Sighting | None:
    """Tensors of equal shape, saved in float32 the one time and in a half type the other."""
    error = checkpoint_error(log)
    if error is None or error.compiled or any(each.emptied for each in error.differences):
        return None
    recast = [each for each in error.differences if each.recast and between_precisions(each)]
    if not recast:
        return _shifted(error)
    weights = any(len(each.saved.shape) == 2 for each in recast)
    autocast = error.names(r"autocast|amp\b") is not None or mention(log, r"autocast") is not None
    first = recast[0]
    return Sighting(
        message=f"{len(recast)} tensors of shape {list(first.saved.shape)} were {first.saved.dtype} in the forward and "
        f"{first.again.dtype} in the recomputation.",
        evidence=error.evidence(),
        confidence="established" if weights and autocast else "likely",
        failure=error.failure,
        specificity=1020,
    )


def _shifted(error: CheckpointError) -> Sighting | None:
    """Weights at other positions: one was saved the one time and not the other, so the rest moved up."""
    saved = [each.saved for each in error.differences]
    again = [each.again for each in error.differences]
    moved = sum(1 for before, after in zip(saved[1:], again, strict=False) if before == after)
    back = sum(1 for before, after in zip(saved, again[1:], strict=False) if before == after)
    if max(moved, back) < 2 or not any(len(each.shape) == 2 for each in saved):
        return None
    return Sighting(
        message="The recomputation saved the same tensors one position apart: a weight was cast the one time only.",
        evidence=error.evidence(),
        confidence="possible",
        failure=error.failure,
        specificity=1020,
    )


def between_precisions(difference: Difference) -> bool:
    """True when one of the dtypes is float32 and the other a half type."""
    dtypes = {difference.saved.dtype, difference.again.dtype}
    return "float32" in dtypes and bool(dtypes & HALVES)


RULE = Rule(
    id="checkpointing/autocast-weight-cache-recompute-mismatch",
    title="Autocast weight cache differs between forward and recompute",
    layers=("checkpointing", "precision"),
    severity="error",
    silent="",
    cause=(
        "Autocast keeps the half-precision copy of a weight until the outermost context ends; the recomputation finds "
        "another state of that cache, so a cast weight is saved the one time and not the other."
    ),
    remedies=(
        Remedy(
            id="autocast-around-forward",
            kind="code",
            automatic=False,
            how=(
                "enter torch.autocast once around the whole forward, checkpoints included, and leave it before backward"
            ),
        ),
        Remedy(
            id="autocast-without-cache",
            kind="in-process",
            automatic=True,
            how="torch.autocast('cuda', torch.bfloat16, cache_enabled=False)",
        ),
    ),
    caution="Needs autocast around a checkpoint with a weight that is used more than once; else it is another class.",
    from_log=detect_log,
)
