"""Reentrant checkpointing cuts the gradients of adapters, because no input of a block requires one."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, errors, places
from trueup.schema.finding import Evidence, Remedy
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
    cut = [name for name in training.without_gradient if "lora" in name.lower() or "adapter" in name.lower()]
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
            automatic=False,
            how="gradient_checkpointing_kwargs={'use_reentrant': False}",
        ),
        Remedy(
            id="enable-input-require-grads",
            kind="in-process",
            automatic=False,
            how="model.enable_input_require_grads() after the adapters are attached",
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
)
