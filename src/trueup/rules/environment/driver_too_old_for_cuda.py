"""The driver is older than the CUDA that torch was built with."""

from __future__ import annotations

from trueup.rules.cuda_support import oldest_driver
from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import install, torch_cuda, torch_version
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy


def detect_in_environment(environment: Environment) -> Sighting | None:
    cuda, driver, torch = torch_cuda(environment), environment.driver, torch_version(environment)
    needed = oldest_driver(cuda) if cuda else None
    branch = (driver or "").partition(".")[0]
    if needed is None or torch is None or not branch.isdigit() or int(branch) >= needed:
        return None
    registered = environment.tools.get("libcuda.so.1")
    if registered is not None and "compat" in (registered.path or ""):
        return None  # the forward compatibility package stands in for the newer driver
    fitting = next((tag for tag, oldest in (("cu128", 525), ("cu118", 450)) if int(branch) >= oldest), None)
    remedies: tuple[Remedy, ...] = ()
    if fitting:
        index = f"--index-url https://download.pytorch.org/whl/{fitting}"
        remedies = (install(environment, "torch", options=f"--force-reinstall {index}", id="torch-for-this-driver"),)
    return Sighting(
        message=f"torch {torch} was built with CUDA {cuda}, which needs driver {needed} or newer; {driver} is loaded.",
        evidence=(
            Evidence(what="driver", value=driver, at="/proc/driver/nvidia/version"),
            Evidence(what="CUDA of torch", value=cuda),
        ),
        remedies=(*remedies, *RULE.remedies),
    )


RULE = Rule(
    id="environment/driver-too-old-for-cuda",
    title="The NVIDIA driver is too old for the CUDA of torch",
    layers=("environment",),
    severity="error",
    silent="torch.cuda.is_available() is False after a warning; a script that falls back to the CPU goes on there.",
    cause="A driver runs CUDA of its own major version and older ones; torch brings a newer CUDA along.",
    remedies=(
        Remedy(
            id="newer-driver",
            kind="install",
            automatic=False,
            how="install a newer NVIDIA driver on the host (in a container the driver is the host's)",
        ),
    ),
    caution="A newer minor version of CUDA within the same major version runs on the older driver.",
    sources=("https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html",),
    log=(
        LogText(text="The NVIDIA driver on your system is too old", versions="torch, an error or a warning"),
        LogText(text="CUDA driver version is insufficient for CUDA runtime version", versions="CUDA error 35"),
        LogText(
            text="the provided PTX was compiled with an unsupported toolchain",
            versions="CUDA error 222: the driver's compiler is older than the code",
        ),
        LogText(
            text="forward compatibility was attempted on non supported HW",
            strength="supporting",
            versions="CUDA error 804: a container's newer libcuda on a card that does not take it",
        ),
        LogText(
            text="system has unsupported display driver / cuda driver combination",
            strength="supporting",
            versions="CUDA error 803: libcuda and the kernel module are of different releases",
        ),
    ),
    from_environment=detect_in_environment,
)
