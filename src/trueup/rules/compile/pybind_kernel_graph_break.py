"""A kernel bound with pybind, unknown to the operator registry, ends the graph."""

from __future__ import annotations

from trueup.rules.breaks import break_evidence, break_severity, breaks, extension_function, times
from trueup.rules.compilation import effect
from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import asks_for_compile, install, installed_as, said, version_of
from trueup.rules.facts import listed
from trueup.schema.environment import Environment
from trueup.schema.finding import Remedy
from trueup.schema.log import Log
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


def detect_log(log: Log) -> Sighting | None:
    """A break at a function of a C++ extension, which the text names."""
    from trueup.rules.break_logs import break_line

    seen = break_line(log, "extension")
    if seen is None:
        return None
    return seen.sighting(log, f"The graph breaks at {extension_function(seen.told)}, which Dynamo cannot look into.")


def detect_in_environment(environment: Environment) -> Sighting | None:
    asked, flash = asks_for_compile(environment), version_of(environment, "flash-attn")
    if asked is None or flash is None or flash.release[:2] >= (2, 7):
        return None
    return Sighting(
        message=f"torch.compile is asked for, and flash-attn {flash} is called in a way that breaks its graphs.",
        evidence=(installed_as(environment.packages["flash-attn"]), said(asked, "torch.compile asked for")),
        confidence="likely",
        remedies=(
            install(environment, "flash-attn>=2.7", options="--no-deps --no-build-isolation", id="upgrade-flash-attn"),
        ),
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
            id="bridge-attention",
            kind="in-process",
            automatic=True,
            how="trueup.attention.bridge_libraries() once flash_attn is imported, or trueup.attention.bridge(kernel)",
        ),
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
        "https://github.com/pytorch/pytorch/issues/158186",
        "https://github.com/thu-ml/SageAttention/issues/73",
    ),
    from_record=detect,
    log=(
        LogText(
            text="a third-party C/C++ Python extension (perhaps created with pybind)",
            strength="supporting",
            versions="torch 2.3 and newer, the function is cut off",
        ),
    ),
    from_log=detect_log,
    from_environment=detect_in_environment,
)
