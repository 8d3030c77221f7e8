"""ZeRO-3 released a parameter before the recomputation used it."""

from __future__ import annotations

from trueup.rules.checkpoint_errors import checkpoint_error
from trueup.rules.definition import LogText, Rule, Sighting
from trueup.schema.finding import Remedy
from trueup.schema.log import Log


def detect_log(log: Log) -> Sighting | None:
    """Shape [0] in the recomputation where the forward had a full tensor."""
    error = checkpoint_error(log)
    emptied = [each for each in error.differences if each.emptied] if error else []
    if error is None or not emptied:
        return None
    return Sighting(
        message=f"{len(emptied)} tensors, the first of shape {list(emptied[0].saved.shape)}, were empty in the "
        "recomputation: ZeRO-3 had partitioned the parameter again.",
        evidence=error.evidence(),
        failure=error.failure,
        specificity=1100,
    )


RULE = Rule(
    id="checkpointing/zero3-parameter-released-before-recompute",
    title="ZeRO-3 empties parameters before recomputation uses them",
    layers=("checkpointing", "sharding", "adapter"),
    severity="error",
    silent="",
    cause=(
        "ZeRO-3 partitions a parameter again as soon as it seems done; under the non-reentrant variant the "
        "recomputation of "
        "frozen parameters then meets the empty placeholder."
    ),
    remedies=(
        Remedy(id="upgrade-deepspeed", kind="install", automatic=False, how="pip install -U deepspeed (fixed in 2026)"),
        Remedy(
            id="reentrant-checkpoint",
            kind="config-edit",
            automatic=False,
            how="gradient_checkpointing_kwargs={'use_reentrant': True} and model.enable_input_require_grads()",
        ),
        Remedy(id="zero-stage-2", kind="config-edit", automatic=False, how='"zero_optimization": {"stage": 2}'),
    ),
    caution="The one case in which the reentrant variant helps.",
    sources=("https://github.com/Joluck/RWKV-PEFT/issues/58",),
    log=(LogText(text="recomputed metadata: {'shape': torch.Size([0])", versions="torch 2.1 and newer"),),
    from_log=detect_log,
)
