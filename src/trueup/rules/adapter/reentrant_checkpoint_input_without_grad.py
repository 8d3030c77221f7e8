"""Reentrant checkpointing cuts the gradients of adapters, because no input of a block requires one."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import adapters_among, applied, errors, places
from trueup.rules.log_facts import mention, passes
from trueup.schema.finding import Confidence, Evidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record

NO_GRAPH = r"does not require grad and does not have a grad_fn"


def detect(record: Record) -> Sighting | None:
    adapter, training = record.actual.adapter, record.actual.training
    reentrant = record.actual.checkpointing.reentrant or any(
        each.detail.get("use_reentrant") or each.detail.get("reentrant")
        for each in applied(record, "gradient_checkpointing_enable", "checkpoint", "checkpoint_wrapper")
    )
    if not reentrant or not adapter.adapter_trainable:
        return None
    crashed = errors(record, NO_GRAPH)
    cut = adapters_among(training.without_gradient)
    if not crashed and not cut:
        return None
    return Sighting(
        message=f"Adapters inside of reentrant checkpoints got no gradient: "
        f"{'backward raised' if crashed else f'{len(cut)} adapter parameters had none'}.",
        evidence=(
            Evidence(what="reentrant variant used", value=True),
            Evidence(what="adapter parameters that require a gradient", value=adapter.adapter_trainable),
            *(Evidence(what="adapter parameter without a gradient", value=name) for name in cut[:5]),
            *crashed,
            *places(applied(record, "gradient_checkpointing_enable", "get_peft_model")[:2]),
        ),
        severity="error" if crashed else "warning",
    )


NO_GRAD_FN = r"element \d+ of tensors does not require grad and does not have a grad_fn"
NO_INPUT = r"None of the inputs have requires_grad=True"
ADAPTER = r"\b(?:[Qq]?[Ll]o[Rr][Aa]|peft|PEFT|PeftModel\w*|adapter)s?\b"


def detect_log(log: Log) -> Sighting | None:
    """The error alone also says that nothing is trainable or the loss is detached; checkpoint's warning decides."""
    crashed, warned = mention(log, NO_GRAD_FN), mention(log, NO_INPUT)
    if crashed is None and warned is None:
        return None
    told = crashed or warned
    assert told is not None
    checkpoint = passes(told.failure, "torch/utils/checkpoint.py", "gradient_checkpointing")
    adapters = passes(told.failure, "peft/") is not None or mention(log, ADAPTER) is not None
    confidence: Confidence = "possible"
    if warned is not None and (crashed is not None or adapters):
        confidence = "established"
    elif checkpoint is not None or adapters:  # the warning alone: frozen towers print it and are meant to be frozen
        confidence = "likely"
    return Sighting(
        message=(
            "Reentrant checkpoints got no input that requires a gradient, so what is inside of them gets none"
            f"{', and backward raised' if crashed else ''}."
            if warned
            else "The loss has no graph: checkpoints without an input that requires a gradient cut it, or nothing "
            "trains."
        ),
        evidence=tuple(each.evidence(log) for each in (warned, crashed) if each is not None),
        confidence=confidence,
        severity="error" if crashed else "warning",
        failure=told.failure,
    )


RULE = Rule(
    id="adapter/reentrant-checkpoint-input-without-grad",
    title="Reentrant checkpointing cuts gradients of frozen-base adapters",
    layers=("adapter", "checkpointing", "trainer", "sharding"),
    severity="error",
    silent="When something outside of the checkpoints is trainable, training runs and the adapters never change.",
    cause=(
        "The reentrant variant records a graph only if an input of the block requires a gradient; with "
        "frozen embeddings none does, unless a hook on the embedding makes it so."
    ),
    remedies=(
        Remedy(
            id="non-reentrant-checkpoint",
            kind="in-process",
            automatic=True,
            how=(
                "checkpoint(..., use_reentrant=False) in a loop of your own; "
                "gradient_checkpointing_kwargs={'use_reentrant': False} with Hugging Face"
            ),
        ),
        Remedy(
            id="enable-input-require-grads",
            kind="in-process",
            automatic=True,
            how="model.enable_input_require_grads() after the adapters are attached (Hugging Face models)",
        ),
    ),
    caution=(
        "The error also appears when nothing is trainable or the loss is detached: count the parameters "
        "that require a gradient first."
    ),
    sources=(
        "https://github.com/ymcui/Chinese-LLaMA-Alpaca/issues/547",
        "https://github.com/huggingface/transformers/issues/42489",
        "https://github.com/huggingface/transformers/issues/26334",
    ),
    explains=(
        "checkpointing/reentrant-variant-used",
        "adapter/adapters-not-trained",
        "trainer/parameters-without-gradient",
    ),
    from_record=detect,
    from_log=detect_log,
)
