"""A process addresses a MIG device beyond ordinal zero."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.log_facts import mention
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
        message=f"The process asked for device {device or 'beyond the first'} and sees one device"
        f"{', a MIG slice' if mig else ''}.",
        evidence=(
            seen.evidence(log),
            *((Evidence(what="devices visible to the process", value=int(gpus)),) if gpus else ()),
            *((mig.evidence(log, "MIG"),) if mig else ()),
        ),
        confidence="established" if mig else "likely",
        failure=seen.failure,
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
            how="CUDA_VISIBLE_DEVICES=MIG-UUID (nvidia-smi -L) for each process, and device 0 in each; no launcher may "
            "overwrite the variable",
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
        LogText(text="device >= 0 && device < num_gpus", strength="supporting", versions="torch 2.4 or newer"),
        LogText(text="CUDA error: invalid device ordinal", strength="supporting", versions="torch any"),
    ),
    from_log=detect_log,
)
