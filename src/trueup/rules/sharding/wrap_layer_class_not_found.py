"""The layer class to wrap is not in the model."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.facts import errors
from trueup.rules.log_facts import mention
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record

TEXT = r"Could not find the transformer layer class"
CLASS = r"Could not find (?:the|a) transformer layer class (?:called )?(?P<name>(?!to\b)\w+)(?: to wrap)? in the model"


def detect(record: Record) -> Sighting | None:
    crashed = errors(record, TEXT)
    if not crashed:
        return None
    return Sighting(
        message="FSDP was told to wrap a layer class that the model does not have.",
        evidence=(*crashed,),
    )


def detect_log(log: Log) -> Sighting | None:
    seen = mention(log, CLASS)
    if seen is None:
        return None
    return Sighting(
        message=f"The model has no module of class {seen.found['name']}, which the FSDP configuration wraps.",
        evidence=(seen.evidence(log), Evidence(what="class in the configuration", value=seen.found["name"])),
        failure=seen.failure,
    )


RULE = Rule(
    id="sharding/wrap-layer-class-not-found",
    title="Configured FSDP layer class does not exist in the model",
    layers=("sharding", "trainer"),
    severity="error",
    silent="",
    cause=(
        "The class name in the configuration was copied from another model, was renamed, or was split wrongly out of "
        "a list."
    ),
    remedies=(
        Remedy(
            id="existing-layer-class",
            kind="config-edit",
            automatic=False,
            how=(
                "fsdp_transformer_layer_cls_to_wrap: a class from {type(m).__name__ for m in model.modules()}, or "
                "empty for the model's own _no_split_modules"
            ),
        ),
    ),
    caution=("accelerate test runs a toy model of its own and always fails with a class from your configuration."),
    sources=(
        "https://github.com/hiyouga/LlamaFactory/issues/8279",
        "https://github.com/huggingface/accelerate/issues/2947",
    ),
    from_record=detect,
    log=(
        LogText(
            text="Could not find the transformer layer class",
            versions="accelerate, transformers and peft, all releases",
        ),
        LogText(text="Could not find a transformer layer class called", versions="accelerate 1.10 or newer"),
    ),
    from_log=detect_log,
)
