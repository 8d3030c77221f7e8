"""A token goes to another expert when a mixture-of-experts block is recomputed."""

from __future__ import annotations

from trueup.rules.checkpoint_errors import Difference, checkpoint_error
from trueup.rules.definition import Rule, Sighting
from trueup.schema.finding import Remedy
from trueup.schema.log import Log

FEW = 16
EXPERTS = (
    r"\bmoe\b|experts?\b|_moe|moe_|rout(?:er|ing)|sparse_?mixer|mixtral|megablocks|scattermoe|grouped_gemm|top_?k_"
)


def detect_log(log: Log) -> Sighting | None:
    """Tensors of one or two dimensions whose first differs by a few rows."""
    error = checkpoint_error(log)
    if error is None or any(each.emptied for each in error.differences):
        return None
    moved = [each for each in error.differences if rows_moved(each)]
    experts = error.names(EXPERTS)
    if not moved or (len(moved) < len(error.differences) and not experts):
        return None
    both_ways = {each.again.rows > each.saved.rows for each in moved} == {True, False}
    first = moved[0]
    return Sighting(
        message=f"{len(moved)} tensors have a few rows more or fewer in the recomputation ({first.saved.rows} and "
        f"{first.again.rows}): tokens went to other experts.",
        evidence=error.evidence(),
        confidence="established" if experts or both_ways else "likely",
        failure=error.failure,
        specificity=1040,
    )


def rows_moved(difference: Difference) -> bool:
    """True when a few of many rows, or one of a few, came or went, and nothing else changed."""
    saved, again = difference.saved, difference.again
    if len(saved.shape) not in (1, 2) or saved.dtype != again.dtype or difference.resized != (0,):
        return False
    change = abs(saved.rows - again.rows)
    return min(saved.rows, again.rows) > 0 and change <= max(FEW, saved.rows // 20)


RULE = Rule(
    id="checkpointing/moe-routing-nondeterministic",
    title="Expert routing changes between forward and recomputation",
    layers=("checkpointing", "precision"),
    severity="error",
    silent="",
    cause=(
        "The scores of the router are not bitwise repeatable (atomics, another order of reduction), so a "
        "borderline token "
        "goes to another expert when the block is recomputed."
    ),
    remedies=(
        Remedy(
            id="save-router-decision",
            kind="in-process",
            automatic=True,
            how=(
                "keep what the router chose: checkpoint(..., use_reentrant=False, context_fn=...) with a policy of "
                "selective checkpointing that has top-k as MUST_SAVE"
            ),
        ),
        Remedy(
            id="router-outside-checkpoint",
            kind="code",
            automatic=False,
            how="compute the routing before the checkpoint and pass it in",
        ),
        Remedy(
            id="deterministic-algorithms",
            kind="in-process",
            automatic=True,
            how="torch.use_deterministic_algorithms(True), where the slower kernels are acceptable",
        ),
    ),
    caution="A count that differs by a large factor, or is zero, has another cause.",
    from_log=detect_log,
)
