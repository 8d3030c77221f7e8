"""A kernel bound with pybind, unknown to the operator registry, ends the graph."""

from __future__ import annotations

from trueup.rules.breaks import break_evidence, break_severity, breaks, extension_function, times
from trueup.rules.compilation import effect
from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import listed
from trueup.schema.finding import Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    found = breaks(record.actual.compile, "extension")
    if not found:
        return None
    names = dict.fromkeys(name for each in found if (name := extension_function(each)))
    return Sighting(
        message=f"{listed(names)} cannot be traced and broke the graph {times(found)} times"
        f"{effect(record.actual.compile)}.",
        evidence=break_evidence(found),
        severity=break_severity(record, found),
    )


RULE = Rule(
    id="compile/pybind-kernel-graph-break",
    title="Attention kernel called through pybind breaks the graph",
    layers=("compile", "attention", "trainer"),
    severity="warning",
    silent="Without fullgraph every block is split at its attention call.",
    cause=(
        "Dynamo cannot look into a C++ function, and the kernel is not registered as a torch operator with "
        "a fake implementation (flash-attn before 2.7, FA3 before late 2025, FA4 betas, SageAttention)."
    ),
    remedies=(
        Remedy(
            id="upgrade-flash-attn",
            kind="install",
            automatic=False,
            how="flash-attn >= 2.7, and check that the old binary is gone",
        ),
        Remedy(
            id="register-custom-operator",
            kind="code",
            automatic=False,
            how="torch.library.custom_op with register_fake and register_autograd around the kernel",
        ),
    ),
    caution="Read which module the message names: builtins of Python itself give the same text and are another class.",
    sources=(
        "https://github.com/pytorch/pytorch/issues/128071",
        "https://github.com/pytorch/pytorch/issues/144540",
        "https://github.com/thu-ml/SageAttention/issues/73",
    ),
    from_record=detect,
)
