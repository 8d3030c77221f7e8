"""nvcc is of another CUDA than torch."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import builds_at_run_time, toolkit, torch_cuda
from trueup.rules.log_facts import mention
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log

MISMATCH = (
    r"detected CUDA version \((?P<nvcc>[\d.]+)\) mismatches the version that was used to compile\s*PyTorch "
    r"\((?P<torch>[\d.]+)\)"
    r"|Installed CUDA version (?P<nvcc2>[\d.]+) does not match the version torch was compiled with (?P<torch2>[\d.]+)"
)


def detect_log(log: Log) -> Sighting | None:
    seen = mention(log, MISMATCH)
    if seen is None:
        return None
    nvcc, torch = seen.found["nvcc"] or seen.found["nvcc2"], seen.found["torch"] or seen.found["torch2"]
    return Sighting(
        message=f"nvcc is of CUDA {nvcc}, torch was compiled with CUDA {torch}.",
        evidence=(
            seen.evidence(log),
            Evidence(what="CUDA of nvcc", value=nvcc),
            Evidence(what="CUDA of torch", value=torch),
        ),
        remedies=(
            Remedy(
                id="use-toolkit-of-torch",
                kind="env-var",
                automatic=False,
                how=f'export CUDA_HOME=/usr/local/cuda-{torch} PATH="/usr/local/cuda-{torch}/bin:$PATH"',
            ),
            Remedy(
                id="torch-of-toolkit",
                kind="install",
                automatic=False,
                how="pip install --force-reinstall torch --index-url "
                f"https://download.pytorch.org/whl/cu{nvcc.replace('.', '')}",
            ),
            REMEDIES[-1],
        ),
        failure=seen.failure,
    )


REMEDIES = (
    Remedy(
        id="use-toolkit-of-torch",
        kind="env-var",
        automatic=False,
        how="export CUDA_HOME and PATH of a toolkit with the major version of torch.version.cuda",
    ),
    Remedy(
        id="torch-of-toolkit",
        kind="install",
        automatic=False,
        how="install the torch build for the toolkit that is there (index-url https://download.pytorch.org/whl/cuXYZ)",
    ),
    Remedy(
        id="show-fitting-wheel",
        kind="install",
        automatic=False,
        how="trueup doctor --for PACKAGE: a ready wheel needs no nvcc",
    ),
)


def detect_in_environment(environment: Environment) -> Sighting | None:
    cuda, chosen = torch_cuda(environment), toolkit(environment)
    if cuda is None or chosen is None or chosen.version is None or _major(chosen.version) == _major(cuda):
        return None
    fitting = [
        tool
        for name, tool in environment.tools.items()
        if name.startswith("cuda toolkit ") and tool.version and _major(tool.version) == _major(cuda)
    ]
    building = builds_at_run_time(environment)
    how = (
        f"export CUDA_HOME={fitting[-1].path} PATH={fitting[-1].path}/bin:$PATH"
        if fitting
        else f"install the CUDA {cuda} toolkit and export CUDA_HOME=/usr/local/cuda-{cuda}"
    )
    return Sighting(
        message=f"The CUDA toolkit that builds would use is {chosen.version}; torch was built with CUDA {cuda}.",
        evidence=(
            Evidence(what="CUDA toolkit", value=chosen.version, at=chosen.path),
            Evidence(what="CUDA of torch", value=cuda),
            *(Evidence(what="compiles when it runs", value=f"{each.name} {each.version}") for each in building),
        ),
        severity="warning" if building else "note",
        remedies=(Remedy(id="choose-cuda-home", kind="env-var", automatic=False, how=how),),
    )


def _major(version: str) -> str:
    return version.partition(".")[0]


RULE = Rule(
    id="environment/cuda-toolkit-version-mismatch",
    title="nvcc and torch come from different CUDA majors",
    layers=("environment", "launcher"),
    severity="error",
    silent="",
    cause=(
        "torch compares the nvcc that it finds with the CUDA it was compiled with, and stops when the majors differ. "
        "An environment module or the system's toolkit put another nvcc first."
    ),
    remedies=REMEDIES,
    caution=(
        "A difference of minor versions is a warning and mostly harmless. The CUDA that nvidia-smi shows is the "
        "driver's and plays no part."
    ),
    sources=("https://github.com/Dao-AILab/flash-attention/issues/421",),
    log=(
        LogText(
            text="mismatches the version that was used to compile",
            versions="torch any; the line may break before PyTorch",
        ),
        LogText(text="mismatches the version that was used to compilePyTorch", versions="torch 2.13"),
        LogText(text="Please make sure to use the same CUDA versions", versions="torch any, the second line"),
        LogText(
            text="Cuda extensions are being compiled with a version of Cuda that does not match",
            versions="apex setup.py",
        ),
        LogText(text="does not match the version torch was compiled with", versions="deepspeed"),
        LogText(text="CUDAMismatchException", versions="deepspeed"),
        LogText(
            text="FlashAttention is only supported on CUDA <version> and above",
            versions="setup.py of flash-attn, nvcc of an old toolkit",
        ),
        LogText(
            text="has a minor version mismatch with the version that was used to compile PyTorch",
            strength="supporting",
            versions="torch any, a warning",
            kinds=("build",),
        ),
    ),
    from_log=detect_log,
    from_environment=detect_in_environment,
)
