"""A source build started where there is no CUDA toolkit."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import builds_at_run_time, toolkit, torch_cuda
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy

PREBUILT = ("flashinfer-cubin", "flashinfer-jit-cache")
"""With these FlashInfer brings its kernels compiled."""


def detect_in_environment(environment: Environment) -> Sighting | None:
    cuda = torch_cuda(environment)
    needing = [
        package
        for package in builds_at_run_time(environment)
        if not (
            package.name in ("flashinfer-python", "sglang") and any(name in environment.packages for name in PREBUILT)
        )
    ]
    if cuda is None or toolkit(environment) is not None or not needing:
        return None
    home = environment.tools.get("cuda toolkit")
    return Sighting(
        message=f"{needing[0].name} compiles CUDA code on this machine, and there is no nvcc.",
        evidence=(
            *(Evidence(what=f"{package.name} installed", value=package.version) for package in needing),
            Evidence(
                what="nvcc on PATH, in CUDA_HOME or /usr/local/cuda", value="none", at=home.path if home else None
            ),
            Evidence(what="CUDA of torch", value=cuda),
        ),
        confidence="likely",
        severity="warning",
        remedies=(
            Remedy(
                id="install-cuda-toolkit",
                kind="install",
                automatic=False,
                how=f"install the CUDA {cuda} toolkit and export CUDA_HOME=/usr/local/cuda-{cuda}",
            ),
        ),
    )


RULE = Rule(
    id="environment/cuda-toolkit-missing",
    title="Source build started without nvcc or CUDA_HOME",
    layers=("environment",),
    severity="error",
    silent="",
    cause=(
        "CUDA code needs nvcc to compile; the driver and the nvidia-* packages of pip hold the runtime without it. "
        "Mostly nobody asked for a build: no wheel fitted, and setup.py went on to compile."
    ),
    remedies=(
        Remedy(
            id="show-fitting-wheel",
            kind="install",
            automatic=False,
            how="trueup doctor --for flash-attn, which names the wheel that fits this environment and the line to "
            "install it",
        ),
        Remedy(
            id="install-cuda-toolkit",
            kind="install",
            automatic=False,
            how="conda install -c nvidia \"cuda-toolkit=$(python -c 'import torch; print(torch.version.cuda)')\" "
            '(or a devel image), then export CUDA_HOME="$CONDA_PREFIX" (or /usr/local/cuda)',
        ),
    ),
    caution="Look first whether a wheel exists for this Python, torch, CUDA and C++ ABI; where none does, that is the "
    "root.",
    sources=("https://github.com/Dao-AILab/flash-attention/issues/1736",),
    log=(
        LogText(text="CUDA_HOME environment variable is not set", versions="torch any"),
        LogText(text="was requested, but nvcc was not found", versions="setup.py of flash-attn, apex and alike"),
        LogText(
            text="CUDA was not found on the system, please set the CUDA_HOME or the CUDA_PATH",
            versions="torch 2.4 or newer",
        ),
        LogText(text="nvcc not found at <path>. Ensure CUDA path", versions="torch 2.9 or newer"),
        LogText(text="CUDA_HOME does not exist, unable to compile CUDA op(s)", versions="deepspeed"),
        LogText(text="Could not find nvcc and default cuda_home=", versions="flashinfer and other JIT builders"),
        LogText(text="Could not find CUDA installation. Please set CUDA_HOME", versions="JAX and other JIT builders"),
        LogText(text="Cannot find CUDA_HOME", versions="build scripts"),
        LogText(text="Could not find NVCC", versions="build scripts"),
        LogText(text="No CMAKE_CUDA_COMPILER could be found", versions="CMake"),
        LogText(text="Failed to find nvcc", versions="CMake"),
        LogText(text="No such file or directory: <path>bin/nvcc", versions="Python, with a wrong CUDA_HOME"),
        LogText(text="bin/nvcc: No such file or directory", versions="sh"),
        LogText(text="bin/nvcc: not found", versions="sh"),
        LogText(text="nvcc: command not found", versions="bash"),
        LogText(text="nvcc: not found", versions="sh"),
        LogText(text="nvcc is not recognized as an internal or external command", versions="Windows"),
        LogText(text="Unable to find nvcc", versions="build scripts"),
        LogText(text="nvcc is not found", versions="build scripts"),
        LogText(text="nvcc not found", versions="build scripts"),
        LogText(text="nvcc: No such file or directory", versions="sh"),
        LogText(text="No such file or directory: nvcc", versions="Python"),
        LogText(text="name bare_metal_version is not defined", versions="setup.py of flash-attn and apex"),
        LogText(text="cuda_runtime.h: No such file or directory", versions="g++, the toolkit's headers are missing"),
        LogText(text="cuda_runtime_api.h: No such file or directory", versions="g++"),
        LogText(text="cuda.h: No such file or directory", versions="gcc, Triton's launcher"),
        LogText(text="cusparse.h: No such file or directory", versions="g++, toolkit without the math libraries"),
        LogText(text="cublas_v2.h: No such file or directory", versions="g++, toolkit without the math libraries"),
        LogText(text="cusolverDn.h: No such file or directory", versions="g++, toolkit without the math libraries"),
        LogText(
            text="No CUDA runtime is found, using CUDA_HOME=",
            strength="supporting",
            versions="torch any, a warning on machines without a GPU",
            kinds=("build",),
        ),
    ),
    from_environment=detect_in_environment,
)
