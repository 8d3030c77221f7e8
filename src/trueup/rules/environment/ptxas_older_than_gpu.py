"""The assembler inside Triton is older than the GPU."""

from __future__ import annotations

from packaging.version import Version

from trueup.rules.cuda_support import first_cuda
from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import as_version, capability, gpu_evidence, install, variable
from trueup.rules.log_facts import mention
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log

UNDEFINED = r"Value sm_(?P<arch>\d+)(?P<variant>[a-z]?) is not defined for option gpu-name"
OLDEST = 70
"""Below this a ptxas is newer than the GPU: it has dropped it."""


def detect_log(log: Log) -> Sighting | None:
    seen = mention(log, UNDEFINED)
    if seen is None or int(seen.found["arch"]) < OLDEST:
        return None
    arch = f"sm_{seen.found['arch']}{seen.found['variant']}"
    return Sighting(
        message=f"The ptxas that Triton runs does not know {arch}.",
        evidence=(seen.evidence(log), Evidence(what="architecture asked for", value=arch)),
        failure=seen.failure,
    )


def detect_in_environment(environment: Environment) -> Sighting | None:
    for gpu in environment.gpus:
        number, has_second = capability(gpu), "triton ptxas-blackwell" in environment.tools
        suffix = "-blackwell" if has_second and number is not None and number >= (10, 0) else ""
        path = f"TRITON_PTXAS{suffix.upper().replace('-', '_')}_PATH"
        ptxas, needed = environment.tools.get(f"triton ptxas{suffix}"), first_cuda(number)
        version = as_version(ptxas.version) if ptxas else None
        if ptxas is None or version is None or needed is None or version >= needed or variable(environment, path):
            continue
        return Sighting(
            message=f"The ptxas in Triton is of CUDA {ptxas.version}; {gpu.name} needs one of CUDA {needed} or newer.",
            evidence=(Evidence(what=ptxas.name, value=ptxas.version, at=ptxas.path), *gpu_evidence([gpu])),
            remedies=(
                *_of_toolkit(environment, path, needed),
                install(environment, "triton", options="--upgrade", id="upgrade-triton"),
            ),
        )
    return None


def _of_toolkit(environment: Environment, name: str, needed: Version) -> tuple[Remedy, ...]:
    """The assembler of a toolkit on this machine that is new enough."""
    for tool in environment.tools.values():
        version = as_version(tool.version)
        if tool.name == "cuda toolkit" and version is not None and version >= needed:
            how = f"export {name}={tool.path}/bin/ptxas"
            return (Remedy(id="choose-ptxas", kind="env-var", automatic=False, how=how),)
    return ()


RULE = Rule(
    id="environment/ptxas-older-than-gpu",
    title="Bundled ptxas does not know the GPU",
    layers=("environment", "compile"),
    severity="error",
    silent="",
    cause=(
        "Triton brings its own ptxas, a separate one for Blackwell, and it is older than the architecture that Triton "
        "asks it for. Eager CUDA works, since its kernels are compiled already."
    ),
    remedies=(
        Remedy(
            id="upgrade-triton",
            kind="install",
            automatic=False,
            how="pip install --upgrade triton, as far as the installed torch allows it (3.6 knows sm_110, sm_120 and "
            "sm_121)",
        ),
        Remedy(
            id="triton-ptxas-path",
            kind="env-var",
            automatic=False,
            how="export TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas "
            "TRITON_PTXAS_BLACKWELL_PATH=/usr/local/cuda/bin/ptxas, of a toolkit that knows the GPU",
        ),
    ),
    caution="A feature that requires a newer target (.bf16, cvt) is the opposite: the GPU is too old for the dtype.",
    sources=("https://github.com/triton-inference-server/server/issues/8632",),
    log=(
        LogText(
            text="is not defined for option 'gpu-name'",
            versions="ptxas and ptxas-blackwell",
            not_with=(
                "Value 'sm_35'",
                "Value 'sm_37'",
                "Value 'sm_50'",
                "Value 'sm_52'",
                "Value 'sm_60'",
                "Value 'sm_61'",
            ),
        ),
        LogText(text="ptxas fatal : Unsupported .version", versions="ptxas older than the PTX"),
        LogText(text="Unsupported .version <version>; current version is", versions="ptxas older than the PTX"),
        LogText(
            text="is not a recognized processor for this target", strength="supporting", versions="LLVM inside triton"
        ),
        LogText(
            text="Internal Triton PTX codegen error",
            strength="supporting",
            versions="triton 2.x to 3.x",
            not_with=("requires .target",),
        ),
    ),
    from_log=detect_log,
    from_environment=detect_in_environment,
)
