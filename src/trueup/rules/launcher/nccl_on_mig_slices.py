"""NCCL cannot join MIG slices of one GPU."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.environment_facts import processes, said
from trueup.rules.log_facts import mention
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log

DUPLICATE = r"Duplicate GPU detected|Multiple ranks? (?:per|on the same) (?:GPU|device)"
MIG = r"(?<![A-Za-z])(?:MIG|mig)(?![a-z])"


def detect_log(log: Log) -> Sighting | None:
    """What would be a duplicate GPU, in a log that shows MIG."""
    seen, mig = mention(log, DUPLICATE), mention(log, MIG)
    if seen is None or mig is None:
        return None
    return Sighting(
        message="NCCL takes two MIG slices of one card for the same GPU.",
        evidence=(seen.evidence(log), mig.evidence(log, "MIG")),
        confidence="likely",
        failure=seen.failure,
    )


def detect_in_environment(environment: Environment) -> Sighting | None:
    sliced = [gpu for gpu in environment.gpus if gpu.mig and len(gpu.slices) > 1]
    several = processes(environment)
    if not sliced or several is None:
        return None
    return Sighting(
        message=(
            f"{several.value} processes are asked for, and {sliced[0].name} is cut into {len(sliced[0].slices)} slices."
        ),
        evidence=(
            Evidence(what=f"MIG slices of {sliced[0].name}", value=len(sliced[0].slices)),
            said(several, "processes"),
        ),
        confidence="likely",
        severity="warning",
    )


RULE = Rule(
    id="launcher/nccl-on-mig-slices",
    title="NCCL cannot join MIG slices of one GPU",
    layers=("launcher", "environment"),
    severity="error",
    silent="",
    cause=(
        "NCCL knows a rank by the physical card. Several ranks on one card are experimental in its newest releases, "
        "and have no peer-to-peer path."
    ),
    remedies=(
        Remedy(
            id="whole-gpus",
            kind="config-edit",
            automatic=False,
            how="CUDA_VISIBLE_DEVICES with whole GPUs, one for each rank",
        ),
        Remedy(
            id="gloo-for-tests",
            kind="code",
            automatic=False,
            how='init_process_group(backend="gloo"), for tests on slices',
        ),
    ),
    caution="Without MIG two ranks were given the same GPU.",
    sources=("https://github.com/NVIDIA/nccl/issues/1716",),
    from_log=detect_log,
    from_environment=detect_in_environment,
)
