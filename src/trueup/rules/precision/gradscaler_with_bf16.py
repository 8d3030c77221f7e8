"""A GradScaler is active while gradients are bfloat16."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import scaled_in_dtype
from trueup.rules.facts import applied, errors, places, share
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record

NO_KERNEL = r"_amp_foreach_non_finite_check_and_unscale.*not implemented for 'BFloat16'"


def detect(record: Record) -> Sighting | None:
    scalers = [each for each in applied(record, "GradScaler") if each.detail.get("enabled") is not False]
    crashed = errors(record, NO_KERNEL)
    gradients = share(record.actual.precision.gradients, "bfloat16")
    if not crashed and not (scalers and gradients > 0):
        return None
    return Sighting(
        message="A GradScaler is active while gradients are bfloat16"
        f"{', for which its kernel does not exist' if crashed else ', which need no scaling'}.",
        evidence=(
            Evidence(what="share of gradient elements in bfloat16", value=gradients),
            *crashed,
            *places(scalers[:1]),
        ),
        severity="error" if crashed else "note",
    )


def detect_in_environment(environment: Environment) -> Sighting | None:
    """A script may name another dtype, so that this is a possibility only."""
    evidence = scaled_in_dtype(environment, "bfloat16")
    if evidence is None:
        return None
    return Sighting(
        message="accelerate is set to fp16, which makes a GradScaler, and the weights in this folder are bf16: "
        "transformers 5 loads them as they are stored.",
        evidence=evidence,
        confidence="possible",
        severity="note",
    )


RULE = Rule(
    id="precision/gradscaler-with-bf16",
    title="GradScaler active while gradients are bfloat16",
    layers=("precision", "trainer", "sharding"),
    severity="error",
    silent="On a CPU, or with an older scaler, it only does nothing useful.",
    cause=(
        "The model holds bf16 parameters while the trainer is set to fp16, which makes a scaler; "
        "transformers 5 loads checkpoints in their stored dtype."
    ),
    remedies=(
        Remedy(
            id="no-scaler",
            kind="in-process",
            automatic=True,
            how="no GradScaler, or GradScaler(enabled=False), with bf16",
        ),
        Remedy(
            id="bf16-without-scaler",
            kind="config-edit",
            automatic=False,
            how="bf16=True and fp16=False, no GradScaler; or load in float32 for fp16 mixed precision",
        ),
    ),
    caution="A scaler with enabled=False is idle. bf16 needs no scaling, so a missing kernel is not the fault.",
    sources=("https://github.com/open-mmlab/mmengine/issues/1540",),
    from_record=detect,
    from_environment=detect_in_environment,
    log=(
        LogText(
            text="_amp_foreach_non_finite_check_and_unscale_cuda not implemented for BFloat16",
            versions="torch up to 2.13",
        ),
        LogText(
            text="_amp_<operator>_unscale_<device> not implemented for BFloat16", versions="other devices and releases"
        ),
        LogText(
            text="_amp_foreach_non_finite_check_and_unscale_cuda",
            strength="supporting",
            versions="any torch, other dtypes too",
        ),
    ),
)
