"""Questions that several rules ask of an environment; each answers from collected facts only."""

from __future__ import annotations

import re
from collections.abc import Iterable

from packaging.version import InvalidVersion, Version

from trueup.rules.facts import is_on
from trueup.schema.environment import Environment, Extension, Gpu, Package, Setting, Tool
from trueup.schema.finding import Evidence, Remedy

VARIABLES = {
    "dynamo_backend": "ACCELERATE_DYNAMO_BACKEND",
    "dynamo_use_dynamic": "ACCELERATE_DYNAMO_USE_DYNAMIC",
    "dynamo_use_regional_compilation": "ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION",
    "mixed_precision": "ACCELERATE_MIXED_PRECISION",
    "use_cpu": "ACCELERATE_USE_CPU",
}
"""Key of accelerate's configuration → the variable made of it, where that is not the key in capitals."""

COMPILES_AT_RUN_TIME = ("deepspeed", "flashinfer-python", "deep-gemm", "sglang")
"""Packages that build CUDA code on the machine when they are first used, and so need nvcc where they run."""


def version_of(environment: Environment, name: str) -> Version | None:
    """The installed version of a package, None when it is not installed or its version is none."""
    package = environment.packages.get(name)
    return None if package is None else as_version(package.version)


def as_version(text: str | None) -> Version | None:
    try:
        return Version(text) if text else None
    except InvalidVersion:
        return None


def torch_version(environment: Environment) -> Version | None:
    """What torch says of itself, else what its metadata says."""
    return as_version(environment.torch.version) if environment.torch else version_of(environment, "torch")


def torch_cuda(environment: Environment) -> str | None:
    """The CUDA that torch was built with, None for a build without and for no torch."""
    return environment.torch.cuda if environment.torch else None


def configured(environment: Environment, key: str) -> Setting | None:
    """What accelerate's file says under this key (also inside `fsdp_config`, …), else the variable it stands for."""
    for setting in environment.settings:
        if (
            setting.source != "environment"
            and setting.name.rpartition(".")[2] == key
            and "deepspeed" not in setting.name
        ):
            return setting
    return variable(environment, VARIABLES.get(key, key.upper()))


def variable(environment: Environment, *names: str) -> Setting | None:
    """The first of these environment variables that is set and not empty."""
    for name in names:
        for setting in environment.settings:
            if setting.name == name and setting.source == "environment" and setting.value:
                return setting
    return None


def asks_for_compile(environment: Environment) -> Setting | None:
    """The setting that switches torch.compile on."""
    backend = configured(environment, "dynamo_backend")
    return backend if backend is not None and is_on(backend.value) else None


def asks_for_fsdp(environment: Environment) -> Setting | None:
    """The setting that switches FSDP on."""
    kind = configured(environment, "distributed_type")
    if kind is not None and kind.source != "environment":
        return kind if kind.value.upper() == "FSDP" else None
    switch = variable(environment, "ACCELERATE_USE_FSDP")
    return switch if switch is not None and is_on(switch.value) else None


def asks_for_flash(environment: Environment) -> Setting | None:
    """The setting that asks for FlashAttention by name."""
    for setting in environment.settings:
        if setting.name == "model.attn_implementation" and "flash" in setting.value:
            return setting
    return None


def of_model(environment: Environment, key: str) -> Setting | None:
    """What the configuration of a model in the working folder says: `dtype`, `quantization_config.load_in_4bit`."""
    return next((setting for setting in environment.settings if setting.name == f"model.{key}"), None)


def scaled_in_dtype(environment: Environment, dtype: str) -> tuple[Evidence, ...] | None:
    """Why a GradScaler will meet parameters of this dtype, None where nothing tells: accelerate makes one for fp16.

    FSDP and DeepSpeed keep copies in float32, and so does peft of adapters.
    """
    precision, stored = configured(environment, "mixed_precision"), of_model(environment, "dtype")
    kind, library = configured(environment, "distributed_type"), environment.packages.get("transformers")
    keeps_copies = kind is not None and kind.value.upper() not in ("NO", "MULTI_GPU")
    if precision is None or precision.value != "fp16" or stored is None or stored.value != dtype or keeps_copies:
        return None
    version = version_of(environment, "transformers")
    if library is None or version is None or version.major < 5 or "peft" in environment.packages:
        return None
    return said(precision), said(stored, "dtype of the stored weights"), installed_as(library)


def processes(environment: Environment) -> Setting | None:
    """The number of processes that a launch from here will start, when more than one."""
    for setting in (configured(environment, "num_processes"), variable(environment, "WORLD_SIZE")):
        if setting is not None and setting.value.isdigit() and int(setting.value) > 1:
            return setting
    return None


def local_processes(environment: Environment) -> tuple[int, Setting] | None:
    """How many processes a launch will start on this machine, and what says so; None where only the total is known."""
    total, local = configured(environment, "num_processes"), variable(environment, "LOCAL_WORLD_SIZE")
    if local is not None and local.value.isdigit():
        return int(local.value), local
    if total is None or total.source == "environment" or not total.value.isdigit():
        return None
    return -(-int(total.value) // machines(environment)), total


def machines(environment: Environment) -> int:
    """The number of machines of the job, as far as settings tell."""
    for name in ("num_machines", "slurm_nnodes"):
        setting = configured(environment, name)
        if setting is not None and setting.value.isdigit():
            return max(1, int(setting.value))
    return 1


def visible_gpus(environment: Environment) -> int:
    """The number of GPUs that a process started from here sees."""
    chosen = [setting for setting in environment.settings if setting.name == "CUDA_VISIBLE_DEVICES"]
    if not chosen:
        return len(environment.gpus)
    devices = [device.strip() for device in chosen[0].value.split(",") if device.strip()]
    return devices.index("-1") if "-1" in devices else len(devices)


def capability(gpu: Gpu) -> tuple[int, int] | None:
    """Compute capability as numbers: `9.0` is (9, 0)."""
    found = re.fullmatch(r"(\d+)\.(\d+)", gpu.compute_capability or "")
    return (int(found[1]), int(found[2])) if found else None


def gpus_with(environment: Environment, low: tuple[int, int], high: tuple[int, int] = (99, 0)) -> tuple[Gpu, ...]:
    """GPUs whose compute capability is at least `low` and below `high`; those of unknown capability are left out."""
    known = [(gpu, capability(gpu)) for gpu in environment.gpus]
    return tuple(gpu for gpu, number in known if number is not None and low <= number < high)


def supports(extension: Extension, gpu: Gpu) -> bool | None:
    """Whether the CUDA code of a compiled module runs on this GPU; None when it holds none or the GPU is unknown.

    Machine code (`sm_80`) runs on GPUs of the same major number and at least its minor; with an `a` on its own GPU
    only, with an `f` within its family; PTX (`compute_80`) is translated for any newer GPU.
    https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/#gpu-feature-list
    """
    number = capability(gpu)
    if number is None or not extension.gpu_architectures:
        return None
    for name in extension.gpu_architectures:
        found = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", name)
        if found is None:
            continue
        code = (int(found[2]), int(found[3]))
        if found[1] == "compute" and not found[4] and code <= number:
            return True
        if code == number or (found[4] != "a" and code[0] == number[0] and code <= number):
            return True
    return False


def toolkit(environment: Environment) -> Tool | None:
    """The CUDA toolkit with a compiler that torch's extension builder would take."""
    chosen = environment.tools.get("cuda toolkit")
    return chosen if chosen is not None and chosen.name == "cuda toolkit" else None


def builds_at_run_time(environment: Environment) -> tuple[Package, ...]:
    """Installed packages that compile CUDA code where they run."""
    return tuple(environment.packages[name] for name in COMPILES_AT_RUN_TIME if name in environment.packages)


def install(environment: Environment, *requirements: str, id: str, options: str = "", verb: str = "install") -> Remedy:
    """The exact line that installs these into the environment, with the installer that it was made with."""
    line = install_line(environment, *requirements, options=options, verb=verb)
    return Remedy(id=id, kind="install", automatic=False, how=line)


def install_line(environment: Environment, *requirements: str, options: str = "", verb: str = "install") -> str:
    """`/env/bin/python -m pip install …`, or `uv pip install --python /env/bin/python …`."""
    python = environment.executable or "python"
    what = " ".join(part for part in (options, *map(quoted, requirements)) if part)
    installers = {package.installer for package in environment.packages.values()}
    by_uv = "uv" in installers or ("pip" not in environment.packages and "uv" in environment.tools)
    return f"uv pip {verb} --python {quoted(python)} {what}" if by_uv else f"{quoted(python)} -m pip {verb} {what}"


def quoted(text: str) -> str:
    """`text` as one word of a shell. A path keeps its beginning bare, so that a home folder can be written `~`."""
    if re.fullmatch(r"[\w@%+=:,./~-]+", text):
        return text
    if text.startswith(("/", "~")):
        return re.sub(r"([^\w@%+=:,./~-])", r"\\\1", text)
    return "'" + text.replace("'", "'\"'\"'") + "'"


def said(setting: Setting, what: str | None = None) -> Evidence:
    """A setting as evidence, with the file it stands in."""
    at = None if setting.source == "environment" else setting.source
    return Evidence(
        what=what or f"{setting.name}" + (" in the environment" if at is None else ""), value=setting.value, at=at
    )


def installed_as(package: Package) -> Evidence:
    """An installed version as evidence."""
    by = f" (by {package.installer})" if package.installer else ""
    return Evidence(what=f"{package.name} installed{by}", value=package.version, at=package.location or None)


def gpu_evidence(gpus: Iterable[Gpu]) -> tuple[Evidence, ...]:
    """Name and compute capability of GPUs, equal ones once."""
    names = dict.fromkeys((gpu.name, gpu.compute_capability) for gpu in gpus)
    return tuple(Evidence(what=f"compute capability of {name}", value=number) for name, number in names)
