"""The reentrant variant of checkpointing ran."""

from __future__ import annotations

from trueup.rules.compilation import compile_asked
from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.facts import applied
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    checkpointing, sharding = record.actual.checkpointing, record.actual.sharding
    if not checkpointing.reentrant:
        return None
    adapters = record.actual.adapter.adapter_parameters > 0
    if adapters and "zero-3" in (sharding.strategy or "").lower():
        return None  # the one combination that needs the reentrant variant
    with_compile = compile_asked(record)
    beside = [name for name, there in {"compile": with_compile, "adapters": adapters}.items() if there]
    uses = [each for each in applied(record, "checkpoint") if each.detail.get("use_reentrant")]
    return Sighting(
        message=f"Checkpointing ran its reentrant variant{' beside ' + ' and '.join(beside) if beside else ''} "
        f"({checkpointing.calls} calls a step).",
        evidence=(
            Evidence(what="reentrant variant ran", value=True, at=uses[0].at if uses else None),
            Evidence(what="checkpoint calls in the last sampled step", value=checkpointing.calls),
        ),
        severity="warning" if beside else "note",
    )


RULE = Rule(
    id="checkpointing/reentrant-variant-used",
    title="Reentrant checkpointing used where it is unsupported or slower",
    layers=("checkpointing", "compile", "adapter", "trainer"),
    severity="warning",
    silent="It works where nothing else is in the way; the warning that asks for an explicit choice is printed once.",
    cause=(
        "The reentrant variant is an autograd function that runs a nested backward: Dynamo and compiled "
        "autograd cannot trace it, DDP and frozen inputs confuse it. It was the default of torch and of "
        "transformers 4."
    ),
    remedies=(
        Remedy(
            id="non-reentrant-checkpoint",
            kind="in-process",
            automatic=True,
            how="use_reentrant=False (gradient_checkpointing_kwargs, NO_REENTRANT for checkpoint_wrapper)",
        ),
    ),
    caution=(
        "If adapters get no gradient the class is reentrant-checkpoint-input-without-grad. DeepSpeed ZeRO-3 "
        "with frozen parameters needs the reentrant variant."
    ),
    sources=("https://github.com/pytorch/pytorch/issues/142104", "https://github.com/pytorch/pytorch/issues/97436"),
    from_record=detect,
    log=(
        LogText(text="inline in skipfiles: CheckpointFunction", versions="torch 2.1 to 2.5, compiled autograd"),
        LogText(
            text="When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad()",
            versions="torch 2.5 and newer",
        ),
        LogText(text="Checkpointing is not compatible with .grad()", versions="torch 2.4 and older"),
        LogText(
            text="Expected to mark a variable ready only once",
            strength="supporting",
            versions="DDP, which names shared parameters as another cause",
            inside=("torch/utils/checkpoint.py",),
        ),
        LogText(
            text="the use_reentrant parameter should be passed explicitly",
            strength="supporting",
            versions="torch 2.4 and newer, a warning",
        ),
        LogText(
            text="please pass in use_reentrant=True or use_reentrant=False explicitly",
            strength="supporting",
            versions="torch 2.1 to 2.3, a warning",
        ),
    ),
)
