"""Questions that several rules ask of the compiled modules of an environment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from trueup.rules.environment_facts import install, torch_version
from trueup.rules.expression import Expression
from trueup.schema.environment import Environment, Extension, Package
from trueup.schema.finding import Evidence, Remedy

CUDA_LIBRARY = Expression(
    r"lib(?:cudart|cublas|cublasLt|cudnn\w*|cufft|curand|cusolver|cusparse|cusparseLt|nccl|nvrtc|nvJitLink|nvToolsExt"
    r"|cupti|c10_cuda|torch_cuda\w*)\.so(?:\.\d+)*"
)
"""What comes with CUDA or a CUDA build of torch."""

BUNDLING = ("flash-attn", "xformers", "vllm", "vllm-flash-attn", "fa3-fwd", "sgl-kernel", "transformer-engine")
"""Packages whose compiled modules are attention kernels, or bring a copy of FlashAttention."""

GO_ON_WITHOUT = ("torchao", "xformers", "bitsandbytes", "apex", "liger-kernel", "pytorch3d")
"""Packages that catch the failure of their compiled modules and go on with slower code or fewer functions."""

WHEEL_TORCH = Expression(r"(?:torch|pt)(?P<major>\d)\.?(?P<minor>\d{1,2})(?:\.\d+)?")


class Claim(msgspec.Struct, frozen=True):
    """The torch that a wheel says it was built for, by its name."""

    package: Package
    torch: str
    """`2.8`"""
    text: str
    """Where it says so."""


def broken_extensions(environment: Environment) -> Iterator[tuple[Extension, tuple[str, ...]]]:
    """Compiled modules that need symbols of torch which the installed one lacks, and these symbols.

    Symbols of a CUDA library that is not installed at all are another matter, and so are modules for another Python,
    which this one never loads.
    """
    for extension in environment.extensions:
        absent = set(extension.missing_cuda_symbols)
        symbols = tuple(symbol for symbol in extension.missing_symbols if symbol not in absent)
        if symbols and fits_python(environment, extension):
            yield extension, symbols


def are_optional(extensions: Iterable[Extension]) -> bool:
    """True when the packages of all these modules can be imported without them."""
    return all(extension.package in GO_ON_WITHOUT for extension in extensions)


def fits_python(environment: Environment, extension: Extension) -> bool:
    """False for a module whose file name is for another Python."""
    tag = extension.python_tag
    return tag is None or tag.startswith("abi3") or environment.python_tag is None or tag == environment.python_tag


def missing_symbols(found: Iterable[tuple[Extension, tuple[str, ...]]], most: int = 5) -> Iterator[Evidence]:
    """The first missing symbol of each module, as evidence."""
    for extension, symbols in list(found)[:most]:
        owner = extension.package or extension.file
        yield Evidence(what=f"missing symbol of {owner}", value=symbols[0], at=extension.file)


def rebuilt(environment: Environment, extensions: Iterable[Extension]) -> tuple[Remedy, ...]:
    """The lines that bring modules which fit the installed torch: the paired release, else a build against it."""
    packages = dict.fromkeys(extension.package for extension in extensions if extension.package)
    return tuple(_rebuilt(environment, package) for package in packages if package in environment.packages)


def _rebuilt(environment: Environment, package: str) -> Remedy:
    torch = torch_version(environment)
    options = "--force-reinstall --no-deps --no-cache-dir"
    if torch is not None and package in ("torchvision", "torchaudio"):
        local = f" --index-url https://download.pytorch.org/whl/{torch.local}" if torch.local else ""
        # https://github.com/pytorch/vision#installation: 0.15 goes with torch 2.0 and so on; torchaudio counts as torch
        # up to 2.11, which is on the stable ABI and requires torch>=2.11
        paired = f"0.{torch.minor + 15}" if package == "torchvision" else f"{torch.major}.{min(torch.minor, 11)}"
        return install(environment, f"{package}=={paired}.*", options=options + local, id=f"paired-{package}")
    version = environment.packages[package].version.partition("+")[0]
    return install(
        environment,
        f"{package}=={version}",
        options=f"{options} --no-build-isolation --no-binary {package}",
        id="rebuild-extension",
    )


def claims(environment: Environment) -> Iterator[Claim]:
    """What wheels say in the local part of their version or in their file name about the torch that they are for."""
    for package in environment.packages.values():
        if package.name in ("torch", "torchvision", "torchaudio"):
            continue
        local = package.version.partition("+")[2]
        origin = package.origin if package.origin and package.origin.endswith(".whl") else ""
        for text in (local, origin.replace("%2B", "+").rpartition("/")[2].partition("+")[2]):
            found = WHEEL_TORCH.search(text)
            if found:
                yield Claim(package, f"{found['major']}.{found['minor']}", origin.rpartition("/")[2] or package.version)
                break
