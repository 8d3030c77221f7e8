"""The configuration itself asks for eager attention."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.environment_facts import said
from trueup.rules.facts import applied, asked, percent, switched
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    attention = record.actual.attention
    requested = asked(record, "attention", "implementation") or attention.requested
    eager = sum(kernel.share for kernel in attention.kernels if kernel.name == "eager")
    if requested != "eager" or eager == 0 or switched(record, "attention"):
        return None
    configs = applied(record, "config")
    if any(each.detail.get("output_attentions") or each.detail.get("supports_sdpa") is False for each in configs):
        return None
    return Sighting(
        message=f"The configuration asks for eager attention, and {percent(eager)} of the attention calls ran it.",
        evidence=(
            Evidence(what="attention implementation requested", value="eager", at=configs[0].at if configs else None),
            Evidence(what="share of attention calls that ran eager", value=eager),
        ),
    )


def detect_in_environment(environment: Environment) -> Sighting | None:
    found = [
        each for each in environment.settings if each.name == "model.attn_implementation" and each.value == "eager"
    ]
    if not found:
        return None
    return Sighting(
        message="A model configuration in the working folder asks for eager attention.",
        evidence=tuple(said(each, "attention implementation requested") for each in found),
        confidence="likely",
    )


RULE = Rule(
    id="attention/eager-implementation-requested",
    title="Configuration asks for eager attention and overrides the fused default",
    layers=("attention",),
    severity="warning",
    silent="A call or a saved configuration carries the setting; time and memory grow with the square of the length.",
    cause="attn_implementation is eager, in code, a saved configuration or a settings file, and overrides the default.",
    remedies=(
        Remedy(
            id="request-sdpa",
            kind="in-process",
            automatic=True,
            how='attn_implementation="sdpa" (or a flash implementation), or drop the key',
        ),
    ),
    caution=(
        "Right where attention weights are outputs that are needed, or where the model has no other implementation."
    ),
    from_record=detect,
    from_environment=detect_in_environment,
)
