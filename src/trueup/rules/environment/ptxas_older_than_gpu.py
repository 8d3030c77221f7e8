"""The assembler inside Triton is older than the GPU."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.log_facts import mention
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


RULE = Rule(
    id="environment/ptxas-older-than-gpu",
    title="Bundled ptxas does not know the GPU",
    layers=("environment", "compile"),
    severity="error",
    silent="",
    cause=(
        "Triton brings its own ptxas, a separate one for Blackwell, and it is older than the architecture that Triton "
        "asks "
        "it for. Eager CUDA works, since its kernels are compiled already."
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
            "TRITON_PTXAS_BLACKWELL_PATH=/usr/local/cuda/bin/ptxas, of a "
            "toolkit that knows the GPU",
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
        LogText(
            text="PTXAS error:", strength="supporting", versions="triton 3.5 or newer", not_with=("requires .target",)
        ),
    ),
    from_log=detect_log,
)
