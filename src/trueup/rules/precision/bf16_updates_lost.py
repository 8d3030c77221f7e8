"""Weights are bf16 without a float32 master copy, and small updates round to nothing."""

from __future__ import annotations

import re

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, percent, places, share
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record

COMPENSATED = re.compile(r"stochastic|kahan|anyprecision|compensat", re.IGNORECASE)
LOST = 0.3
"""Share of unchanged weights from which on it counts: a healthy float32 step leaves next to none unchanged."""


def detect(record: Record) -> Sighting | None:
    precision, training = record.actual.precision, record.actual.training
    updated = precision.gradients or precision.parameters
    low = share(updated, "bfloat16", "float16")
    unchanged = precision.unchanged_share
    if low < 0.5 or unchanged is None or unchanged < LOST:
        return None
    optimizers = applied(record, "Optimizer")
    settings = " ".join([*training.optimizers, *(str(each.detail) for each in optimizers)])
    if COMPENSATED.search(settings) or any(each.detail.get("lr") == 0 for each in optimizers):
        return None
    return Sighting(
        message=f"{percent(low)} of the trained weights are held in half precision, and an optimizer step left "
        f"{percent(unchanged)} of the weights with a gradient unchanged.",
        evidence=(
            Evidence(what="share of weights with a gradient left bit-equal by a step", value=unchanged),
            Evidence(what="share of trained elements in half precision", value=low),
            *places(optimizers[:1]),
        ),
        confidence="likely",
    )


RULE = Rule(
    id="precision/bf16-updates-lost",
    title="Pure bf16 weights round small optimizer updates to nothing",
    layers=("precision",),
    severity="warning",
    silent="The loss falls, only more slowly than it should.",
    cause="bf16 has 8 bits of mantissa: an update below half a unit in the last place of a weight is lost.",
    remedies=(
        Remedy(
            id="fp32-master-weights",
            kind="in-process",
            automatic=True,
            how="keep parameters in float32 and compute under autocast or FSDP mixed precision",
        ),
        Remedy(
            id="stochastic-rounding",
            kind="code",
            automatic=False,
            how="an optimizer with stochastic rounding or Kahan summation",
        ),
    ),
    caution=(
        "Optimizers made for it, a large learning rate, frozen parameters, and the first steps of a warm-up from zero."
    ),
    from_record=detect,
)
