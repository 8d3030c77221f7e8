"""nvcc does not know the GPU that it shall compile for."""

from __future__ import annotations

from trueup.rules.cuda_support import FIRST_CUDA, first_cuda
from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import (
    as_version,
    builds_at_run_time,
    capability,
    said,
    toolkit,
    torch_cuda,
    variable,
)
from trueup.rules.log_facts import mention
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log

UNSUPPORTED = (
    r"(?i:unsupported (?:cuda )?gpu architecture:?) (?:compute_|sm_)?(?P<arch>\d+[a-z]?)"
    r"|Value (?:sm|compute)_(?P<arch2>\d+[a-z]?) is not defined for option gpu-(?:architecture|code)"
)
TOOLKITS = {"80": "11.0", "86": "11.1", "87": "11.4", "89": "11.8", "90": "11.8", "90a": "12.0", "100": "12.8"}
TOOLKITS |= {"100a": "12.8", "101": "12.8", "103": "12.9", "110": "13.0", "120": "12.8", "120a": "12.8", "121": "12.9"}
"""Compute capability → the first toolkit that knows it."""


def detect_log(log: Log) -> Sighting | None:
    seen = mention(log, UNSUPPORTED)
    if seen is None:
        return None
    arch = seen.found["arch"] or seen.found["arch2"]
    toolkit = TOOLKITS.get(arch)
    old = int(arch.rstrip("abcdefghijklmnopqrstuvwxyz")) < 70
    why = f", which came with CUDA {toolkit}" if toolkit else ", which newer toolkits have dropped" if old else ""
    return Sighting(
        message=f"nvcc does not know the architecture {arch}{why}.",
        evidence=(seen.evidence(log), Evidence(what="architecture asked for", value=arch)),
        remedies=(newer_toolkit(toolkit), REMEDIES[1]) if toolkit else REMEDIES[::-1] if old else (),
        failure=seen.failure,
    )


def newer_toolkit(version: str) -> Remedy:
    """The line for one version."""
    return Remedy(
        id="newer-cuda-toolkit",
        kind="install",
        automatic=False,
        how=f'export CUDA_HOME=/usr/local/cuda-{version} PATH="/usr/local/cuda-{version}/bin:$PATH", a toolkit of CUDA '
        f"{version} or newer, and check with nvcc --version",
    )


REMEDIES = (
    Remedy(
        id="newer-cuda-toolkit",
        kind="install",
        automatic=False,
        how="a toolkit that knows the GPU first in CUDA_HOME and PATH: compute_120 needs CUDA 12.8, compute_90a 12.0, "
        "compute_89 11.8; check with nvcc --version",
    ),
    Remedy(
        id="limit-build-architectures",
        kind="env-var",
        automatic=False,
        how='TORCH_CUDA_ARCH_LIST="9.0" (flash-attn: FLASH_ATTN_CUDA_ARCHS=90) with architectures that nvcc and the '
        "GPU know",
    ),
)


def detect_in_environment(environment: Environment) -> Sighting | None:
    chosen = toolkit(environment)
    version = as_version(chosen.version) if chosen else None
    if chosen is None or version is None or torch_cuda(environment) is None:
        return None
    wanted = {number: f"{gpu.name}" for gpu in environment.gpus if (number := capability(gpu)) is not None}
    listed = variable(environment, "TORCH_CUDA_ARCH_LIST")
    if listed is not None:
        names = {f"{major}.{minor}": (major, minor) for major, minor in FIRST_CUDA}
        words = listed.value.replace(";", " ").replace("+PTX", "").split()
        wanted = {names[word.rstrip("af")]: listed.name for word in words if word.rstrip("af") in names}
    unknown = [(number, needed) for number in wanted if (needed := first_cuda(number)) and version < needed]
    if not unknown:
        return None
    number, needed = unknown[0]
    building = builds_at_run_time(environment)
    return Sighting(
        message=(
            f"nvcc {chosen.version} cannot compile for {number[0]}.{number[1]} ({wanted[number]}), which needs CUDA "
            f"{needed}."
        ),
        evidence=(
            Evidence(what="CUDA toolkit", value=chosen.version, at=chosen.path),
            *((said(listed),) if listed else ()),
            *(Evidence(what="compiles when it runs", value=f"{each.name} {each.version}") for each in building),
        ),
        severity="warning" if building or listed else "note",
    )


RULE = Rule(
    id="environment/nvcc-unsupported-gpu-architecture",
    title="nvcc too old for the requested GPU architecture",
    layers=("environment",),
    severity="error",
    silent="",
    cause=(
        "The nvcc that was found is older than the GPU, or newer than one it has dropped. Builders often pick an old "
        "system nvcc although the CUDA of pip is newer."
    ),
    remedies=REMEDIES,
    caution="The reverse, no kernel image is available, is a finished binary that lacks the architecture.",
    sources=("https://github.com/mit-han-lab/Block-Sparse-Attention/issues/15",),
    log=(
        LogText(text="Unsupported gpu architecture", versions="nvcc"),
        LogText(text="unsupported CUDA gpu architecture", versions="clang"),
        LogText(text="Unknown CUDA arch (<arch>) or GPU not supported", versions="torch any"),
        LogText(text="is not defined for option 'gpu-architecture'", versions="nvcc"),
    ),
    from_log=detect_log,
    from_environment=detect_in_environment,
)
