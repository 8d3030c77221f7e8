"""The container's /dev/shm is too small."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import torch_version, visible_gpus
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy

LEAST = 256 * 1024**2
"""Bytes; Docker gives 64 MB."""


def detect_in_environment(environment: Environment) -> Sighting | None:
    size, container = environment.limits.get("shm_bytes"), environment.limits.get("container")
    if not isinstance(size, int) or size >= LEAST or container is None or torch_version(environment) is None:
        return None
    several = visible_gpus(environment) > 1
    return Sighting(
        message=f"/dev/shm of this container holds {size / 1e6:.0f} MB; NCCL and data loader workers take more.",
        evidence=(
            Evidence(what="size of /dev/shm in bytes", value=size),
            Evidence(what="container", value=str(container)),
            Evidence(what="GPUs visible", value=visible_gpus(environment)),
        ),
        confidence="likely" if several else "possible",
        severity="warning" if several else "note",
    )


RULE = Rule(
    id="launcher/container-shared-memory-too-small",
    title="Container shared memory too small for NCCL",
    layers=("launcher", "environment"),
    severity="error",
    silent="",
    cause=(
        "Docker gives a container 64 MB of /dev/shm, less than the shared-memory transport of NCCL and the workers of "
        "a DataLoader take."
    ),
    remedies=(
        Remedy(
            id="larger-shared-memory",
            kind="config-edit",
            automatic=False,
            how="docker run --ipc=host (or --shm-size=16g); Kubernetes: an emptyDir with medium: Memory at /dev/shm",
        ),
        Remedy(
            id="nccl-without-shared-memory",
            kind="env-var",
            automatic=False,
            how="NCCL_SHM_DISABLE=1, as a test only: it is slow",
        ),
    ),
    caution="Read the size of /dev/shm first (df -h /dev/shm): the same system error covers faults of the network.",
    sources=("https://github.com/pytorch/pytorch/issues/54822",),
    log=(
        LogText(
            text="ncclSystemError: System call (socket, malloc, munmap, etc) failed",
            versions="NCCL 2.7 to 2.12",
            not_with=("socketStartConnect", "Call to connect failed", "Connection refused", "No route to host"),
        ),
        LogText(text="failed to extend /dev/shm/nccl-<name>", versions="NCCL 2.12 or newer"),
        LogText(text="Call to posix_fallocate failed", versions="NCCL 2.5 to 2.11"),
        LogText(text="Error while creating shared memory segment", versions="NCCL any"),
        LogText(text="insufficient shared memory (shm)", versions="DataLoader, torch any"),
        LogText(text="workers are out of shared memory", versions="DataLoader, torch any"),
        LogText(text="unable to write to file </torch_", versions="torch any, a tensor moved through /dev/shm"),
        LogText(
            text="System call (e.g. socket, malloc) or external library call failed or device error",
            strength="supporting",
            versions="NCCL 2.13 or newer",
            not_with=("socketStartConnect", "Connection refused", "No route to host"),
        ),
        LogText(
            text="unhandled system error",
            strength="supporting",
            versions="torch any, about NCCL",
            not_with=("ncclSystemError", "socketStartConnect", "Connection refused", "No route to host"),
        ),
    ),
    from_environment=detect_in_environment,
)
