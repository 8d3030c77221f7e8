"""A GradScaler meets fp16 gradients, because trainable parameters are fp16."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import scaled_in_dtype
from trueup.rules.facts import applied, errors, places, share
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record

TEXT = r"Attempting to unscale FP16 gradients"


def detect(record: Record) -> Sighting | None:
    scalers = [each for each in applied(record, "GradScaler") if each.detail.get("enabled") is not False]
    crashed = errors(record, TEXT)
    gradients = share(record.actual.precision.gradients, "float16")
    if not crashed:
        return None
    return Sighting(
        message="The GradScaler refused fp16 gradients: trainable parameters are fp16 and have no float32 master copy.",
        evidence=(
            *crashed,
            Evidence(what="share of gradient elements in float16", value=gradients),
            *places(scalers[:1]),
        ),
    )


def detect_in_environment(environment: Environment) -> Sighting | None:
    """A script may name another dtype, so that this is a possibility only."""
    evidence = scaled_in_dtype(environment, "float16")
    if evidence is None:
        return None
    return Sighting(
        message="accelerate is set to fp16, which makes a GradScaler, and the weights in this folder are fp16: "
        "transformers 5 loads them as they are stored.",
        evidence=evidence,
        confidence="possible",
        severity="note",
    )


RULE = Rule(
    id="precision/gradscaler-fp16-parameters",
    title="GradScaler used with fp16 trainable parameters",
    layers=("precision", "adapter", "environment", "trainer"),
    severity="error",
    silent="",
    cause="AMP needs float32 parameters to update; the model, and with it the adapters, was loaded or cast to fp16.",
    remedies=(
        Remedy(
            id="fp32-trainable-parameters",
            kind="in-process",
            automatic=True,
            how=(
                "cast parameters with requires_grad to float32 (peft autocast_adapter_dtype=True), frozen "
                "ones may stay fp16"
            ),
        ),
        Remedy(
            id="bf16-without-scaler",
            kind="config-edit",
            automatic=False,
            how="bf16=True and fp16=False where the GPU has bf16",
        ),
    ),
    caution="Look which parameters are fp16 before mixed precision is switched off.",
    sources=(
        "https://github.com/2U1/Qwen-VL-Series-Finetune/issues/184",
        "https://github.com/67372a/LoRA_Easy_Training_Scripts/issues/57",
    ),
    from_record=detect,
    from_environment=detect_in_environment,
    log=(LogText(text="Attempting to unscale FP16 gradients", versions="any torch"),),
)
