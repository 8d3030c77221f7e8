"""A process addresses a MIG device beyond ordinal zero."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import processes, said, variable
from trueup.rules.log_facts import mention
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log

ORDINAL = (
    r"device >= 0 && device < num_gpus[^\n]*?INTERNAL ASSERT FAILED(?:[^\n]*?device=(?P<device>\d+), "
    r"num_gpus=(?P<gpus>\d+))?"
)
INVALID = r"invalid device ordinal"
MIG = r"(?<![A-Za-z])MIG(?![a-z])"


def detect_log(log: Log) -> Sighting | None:
    """One visible device and an index beyond it; with MIG in the log that is what it must be."""
    seen = mention(log, ORDINAL)
    mig = mention(log, MIG)
    if seen is None:
        seen = mention(log, INVALID) if mig else None
    if seen is None:
        return None
    groups = seen.found.groupdict()
    device, gpus = groups.get("device"), groups.get("gpus")
    if gpus and int(gpus) > 1:  # a process sees one MIG slice at most
        return None
    if gpus == "0":
        return None
    return Sighting(
        message=f"The process asked for device {device or 'beyond the first'} and sees one "
        f"device{', a MIG slice' if mig else ''}.",
        evidence=(
            seen.evidence(log),
            *((Evidence(what="devices visible to the process", value=int(gpus)),) if gpus else ()),
            *((mig.evidence(log, "MIG"),) if mig else ()),
        ),
        confidence="established" if mig else "likely",
        failure=seen.failure,
    )


def detect_in_environment(environment: Environment) -> Sighting | None:
    sliced = [gpu for gpu in environment.gpus if gpu.mig]
    several, chosen = processes(environment), variable(environment, "CUDA_VISIBLE_DEVICES")
    listed = len(chosen.value.split(",")) if chosen is not None and "MIG-" in chosen.value else 0
    if not sliced or (several is None and listed < 2):
        return None
    first = sliced[0].slices[0] if sliced[0].slices else "MIG-<uuid>"
    return Sighting(
        message=f"MIG is on for {sliced[0].name}: a process sees one slice as device 0, whatever its rank.",
        evidence=(
            Evidence(what="MIG slices", value=sum(len(gpu.slices) for gpu in sliced)),
            *((said(several, "processes"),) if several else ()),
            *((said(chosen),) if chosen else ()),
        ),
        confidence="likely",
        severity="warning",
        remedies=(
            Remedy(
                id="one-slice-a-process",
                kind="env-var",
                automatic=False,
                how=f"CUDA_VISIBLE_DEVICES={first} for one process, another slice for each other; device 0 in all",
            ),
        ),
    )


RULE = Rule(
    id="launcher/mig-device-ordinal",
    title="Process addresses a MIG device beyond ordinal zero",
    layers=("launcher", "environment"),
    severity="error",
    silent="",
    cause="A CUDA process sees one MIG slice at most, and it is always device 0; the rank is no index for it.",
    remedies=(
        Remedy(
            id="one-process-per-mig-slice",
            kind="env-var",
            automatic=False,
            how="CUDA_VISIBLE_DEVICES=MIG-UUID (nvidia-smi -L) for each process, and device 0 in each; no launcher "
            "may overwrite the variable",
        ),
        Remedy(
            id="processes-as-gpus",
            kind="config-edit",
            automatic=False,
            how="without MIG: torchrun --nproc-per-node=gpu, equal to the GPUs that CUDA_VISIBLE_DEVICES shows",
        ),
    ),
    caution="Without MIG the ordinal means too many processes or a wrong CUDA_VISIBLE_DEVICES.",
    sources=("https://github.com/pytorch/pytorch/issues/130181",),
    log=(
        LogText(
            text="invalid literal for int() with base 10: 'MIG-<uuid>",
            versions="frameworks that read CUDA_VISIBLE_DEVICES as numbers",
        ),
        LogText(text="Invalid device id", strength="supporting", versions="torch any", types=("AssertionError",)),
        LogText(text="device >= 0 && device < num_gpus", strength="supporting", versions="torch 2.4 or newer"),
        LogText(text="CUDA error: invalid device ordinal", strength="supporting", versions="torch any"),
    ),
    from_log=detect_log,
    from_environment=detect_in_environment,
)
