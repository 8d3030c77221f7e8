"""Inductor compiles a function for the first time while a checkpoint recomputes it."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.log_facts import mention, passes
from trueup.schema.finding import Confidence, Remedy
from trueup.schema.log import Log

REAL_TENSORS = r"Please convert all Tensors to FakeTensors first"
RANDOM_STATE = r"Found in aten\.\w+[^\n]*size=\((?:16|24|5048|5056),\)[^\n]*torch\.uint8|rng_state|get_rng_state"


def detect_log(log: Log) -> Sighting | None:
    """Real tensors met by a trace: they are random state, or the stack passes through a checkpoint."""
    seen = mention(log, REAL_TENSORS)
    if seen is None:
        return None
    state = mention(log, RANDOM_STATE)
    checkpoint = passes(seen.failure, "torch/utils/checkpoint.py", "unpack_hook", "recompute_fn")
    confidence: Confidence = "possible"
    if state is not None and state.failure is seen.failure:
        confidence = "established"
    elif checkpoint is not None:
        confidence = "likely"
    return Sighting(
        message="A trace met real tensors"
        + (", the random state that a checkpoint saved" if confidence == "established" else "")
        + ": the function was compiled first inside of a recomputation.",
        evidence=(seen.evidence(log),),
        confidence=confidence,
        failure=seen.failure,
    )


RULE = Rule(
    id="checkpointing/first-compile-during-recompute",
    title="First compilation happens during recomputation",
    layers=("checkpointing", "compile", "precision"),
    severity="error",
    silent="",
    cause=(
        "Compilation starts inside of the recomputation, where checkpoint has saved and restored the random state "
        "as real "
        "tensors, which the trace meets."
    ),
    remedies=(
        Remedy(
            id="warm-up-before-checkpoint",
            kind="code",
            automatic=False,
            how="call the compiled function once outside of the checkpoint before the first step",
        ),
        Remedy(
            id="checkpoint-inside-compile",
            kind="in-process",
            automatic=False,
            how="torch.compile the function that calls checkpoint, instead of the one inside of it",
        ),
        Remedy(id="upgrade-torch", kind="install", automatic=False, how="torch >= 2.4"),
    ),
    caution=(
        "The sentence about FakeTensors is generic: without frames of checkpoint or random state it is another class."
    ),
    sources=("https://github.com/pytorch/pytorch/issues/121966",),
    from_log=detect_log,
)
