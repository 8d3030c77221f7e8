"""A binary holds no code for the GPU of this machine."""

from __future__ import annotations

import re

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import gpu_evidence, install, supports
from trueup.rules.extension_facts import BUNDLING
from trueup.schema.environment import Environment, Extension, Gpu, Torch
from trueup.schema.finding import Evidence, Remedy


def detect_in_environment(environment: Environment) -> Sighting | None:
    for gpu in environment.gpus:
        if environment.torch is not None and _torch_supports(environment.torch, gpu) is False:
            return _sighting(environment, gpu, "torch", "torch", environment.torch.gpu_architectures)
    for gpu in environment.gpus:
        for extension in environment.extensions:
            if extension.package not in BUNDLING and supports(extension, gpu) is False:
                name = extension.package or extension.file
                return _sighting(environment, gpu, name, extension.file, extension.gpu_architectures)
    return None


def _torch_supports(torch: Torch, gpu: Gpu) -> bool | None:
    return supports(Extension(file="torch", gpu_architectures=torch.gpu_architectures), gpu)


def _sighting(environment: Environment, gpu: Gpu, name: str, file: str, built: tuple[str, ...]) -> Sighting:
    is_torch = name == "torch"
    return Sighting(
        message=f"{file} holds no code for {gpu.name} (compute capability {gpu.compute_capability}).",
        evidence=(Evidence(what=f"architectures in {name}", value=" ".join(built), at=file), *gpu_evidence([gpu])),
        confidence="established" if is_torch else "likely",
        severity="error" if is_torch else "warning",
        remedies=(install(environment, name, options="--upgrade", id="upgrade-for-this-gpu"),)
        if re.fullmatch(r"[\w.-]+", name)
        else (),
    )


RULE = Rule(
    id="environment/gpu-architecture-not-built-in",
    title="A binary holds no code for the GPU of this machine",
    layers=("environment",),
    severity="error",
    silent="",
    cause=(
        "Machine code for GPUs serves the architectures it was compiled for; the binary has neither that of this GPU "
        "nor intermediate code (PTX) that the driver could translate."
    ),
    remedies=(
        Remedy(
            id="upgrade-for-this-gpu",
            kind="install",
            automatic=False,
            how="install a release that names the GPU's architecture, or build it here with TORCH_CUDA_ARCH_LIST set",
        ),
    ),
    caution="A binary for an older minor version of the same major version runs (sm_80 code on an sm_86 card).",
    sources=("https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/#gpu-feature-list",),
    log=(
        LogText(
            text="no kernel image is available for execution on the device",
            versions="CUDA error 209, printed by torch, bitsandbytes, flash-attn and others",
        ),
        LogText(
            text="is not compatible with the current PyTorch installation",
            versions="torch, a warning with the architectures of both",
        ),
        LogText(
            text="The following list shows the CCs this version of PyTorch was built for",
            strength="supporting",
            versions="torch 2.10 and newer, a warning, also for cards that run the code of a near architecture",
        ),
        LogText(
            text="PyTorch no longer supports this GPU because it is too old",
            versions="torch 1.3 to 2.7, a warning",
        ),
    ),
    from_environment=detect_in_environment,
)
