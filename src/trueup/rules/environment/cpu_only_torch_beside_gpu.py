"""A torch without CUDA on a machine with GPUs."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import gpu_evidence, install
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy


def detect_in_environment(environment: Environment) -> Sighting | None:
    torch = environment.torch
    if torch is None or torch.cuda or torch.hip or not environment.gpus:
        return None
    public = torch.version.partition("+")[0]
    return Sighting(
        message=f"torch {torch.version} is built for the CPU only, and this machine has {environment.gpus[0].name}.",
        evidence=(Evidence(what="torch installed", value=torch.version), *gpu_evidence(environment.gpus)),
        remedies=(
            install(
                environment,
                f"torch=={public}",
                options="--force-reinstall --index-url https://pypi.org/simple",
                id="torch-with-cuda",
            ),
        ),
    )


RULE = Rule(
    id="environment/cpu-only-torch-beside-gpu",
    title="Torch without CUDA on a machine with GPUs",
    layers=("environment",),
    severity="warning",
    silent="Scripts that choose the device by torch.cuda.is_available() train on the CPU without a word.",
    cause=(
        "The installed wheel is the CPU build: chosen by an index of CPU wheels, by a lock file of another machine, "
        "or because no CUDA wheel exists for this platform."
    ),
    remedies=(
        Remedy(
            id="torch-with-cuda",
            kind="install",
            automatic=False,
            how="pip install --force-reinstall --index-url https://pypi.org/simple torch==<the same version>",
        ),
    ),
    caution="Right in an environment that is meant for the CPU on a machine that happens to have a GPU.",
    sources=("https://pytorch.org/get-started/locally/",),
    log=(
        LogText(
            text="Torch not compiled with CUDA enabled",
            versions="torch, when a script asks the CPU build for a GPU",
            types=("AssertionError",),
        ),
    ),
    from_environment=detect_in_environment,
)
