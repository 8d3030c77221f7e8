"""An environment in the terms of wheels: Python tag, torch, CUDA, string ABI, platform, glibc, GPUs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from trueup.environment.wheels.torch_release import default_string_abi
from trueup.schema.environment import Environment

CAPABILITY = re.compile(r"(\d+)\.(\d+)")
LOCAL = re.compile(r"cu(\d+)(\d)")
CPYTHON = re.compile(r"cp(\d)(\d+)t?")
CODE = re.compile(r"(?P<kind>sm|compute)_(?P<number>\d+)(?P<suffix>[af]?)")


@dataclass(frozen=True)
class Here:
    """None stands for what could not be read."""

    python: str | None
    """`cp312`"""
    torch: Version | None
    """None when torch is not installed or its version cannot be read."""
    cuda: Version | None
    """That torch was built for; None for a torch without CUDA, and where `cuda_is_known` is False."""
    string_abi: str | None
    system: str
    machine: str | None
    glibc: Version | None
    capabilities: tuple[tuple[int, int], ...]
    has_gpu: bool
    driver_cuda: Version | None
    rocm: bool = False
    cuda_is_known: bool = True
    """False for a torch of which only the metadata could be read, and that does not tell."""
    torch_lacks: tuple[tuple[int, int], ...] = ()
    """GPUs for which torch itself holds no code: nothing that is built on it runs there."""

    @property
    def torch_minor(self) -> str | None:
        """`2.8`"""
        return None if self.torch is None else f"{self.torch.major}.{self.torch.minor}"

    @property
    def platform(self) -> str | None:
        """`linux_x86_64`"""
        return None if self.machine is None else f"{self.system}_{self.machine}"

    @property
    def is_without_cuda(self) -> bool:
        """There is a torch, and it is known to be built without CUDA."""
        return self.torch is not None and self.cuda is None and self.cuda_is_known

    def in_words(self) -> dict[str, str]:
        """Each fact as it is compared."""
        cuda = "ROCm" if self.rocm else "without CUDA" if self.cuda is None else f"CUDA {self.cuda}"
        cuda = cuda if self.cuda_is_known else "CUDA not known"
        return {
            "python": self.python or "not known",
            "torch": "none" if self.torch is None else f"{self.torch} ({cuda}, {self.string_abi} string ABI)",
            "platform": self.platform or "not known",
            "glibc": "not known" if self.glibc is None else str(self.glibc),
            "gpu": ", ".join(dict.fromkeys(map(code_of, self.capabilities)))
            or ("of unknown compute capability" if self.has_gpu else "none"),
            "driver": "none" if self.driver_cuda is None else f"CUDA up to {self.driver_cuda}",
        }


def here_of(environment: Environment) -> Here:
    """What of an environment decides about wheels."""
    torch = environment.torch
    package = environment.packages.get("torch")
    version = _version(torch.version if torch is not None else package.version if package is not None else None)
    cuda = _version(torch.cuda if torch is not None else None if version is None else _cuda_of(version))
    machine = environment.machine
    build = None if cuda is None else f"{cuda.major}{cuda.minor}"
    string_abi = torch.string_abi if torch is not None else None
    if string_abi is None and version is not None:
        string_abi = default_string_abi(version, build, machine)
    glibc = environment.tools.get("glibc")
    found = (CAPABILITY.fullmatch(gpu.compute_capability or "") for gpu in environment.gpus)
    capabilities = tuple((int(each[1]), int(each[2])) for each in found if each is not None)
    codes = torch.gpu_architectures if torch is not None and cuda is not None else ()
    return Here(
        python=environment.python_tag,
        torch=version,
        cuda=cuda,
        string_abi=string_abi,
        system=(environment.platform or "Linux").split(maxsplit=1)[0].lower(),
        machine=machine,
        glibc=_version(glibc.version) if glibc is not None else None,
        capabilities=capabilities,
        has_gpu=bool(environment.gpus),
        driver_cuda=_version(environment.driver_cuda),
        rocm=torch is not None and torch.hip is not None,
        cuda_is_known=torch is not None or version is None or version.local is not None,
        torch_lacks=tuple(
            each
            for each in capabilities
            if codes and not any(runs(code, each) or compiles(code, each) for code in codes)
        ),
    )


def _cuda_of(torch: Version) -> str | None:
    """`12.8` from `2.8.0+cu128`: the local version of the builds on torch's own index."""
    found = LOCAL.fullmatch(torch.local or "")
    return None if found is None else f"{found[1]}.{found[2]}"


def python_of(tag: str) -> Version | None:
    """`3.12` from `cp312`; None for another interpreter than CPython."""
    found = CPYTHON.fullmatch(tag)
    return None if found is None else Version(f"{found[1]}.{found[2]}")


def code_of(capability: tuple[int, int]) -> str:
    """`sm_90`"""
    return f"sm_{capability[0]}{capability[1]}"


def runs(code: str, capability: tuple[int, int]) -> bool:
    """Whether compiled code runs on a GPU: on its own major capability from its minor one on; sm_90a on 9.0 only."""
    found = CODE.fullmatch(code)
    if found is None or found["kind"] != "sm":
        return False
    major, minor = divmod(int(found["number"]), 10)
    if found["suffix"] == "a":
        return capability == (major, minor)
    return capability[0] == major and capability[1] >= minor


def compiles(code: str, capability: tuple[int, int]) -> bool:
    """Whether a driver can compile PTX (`compute_90`) for a GPU: for any not older, unless it ends in a or f."""
    found = CODE.fullmatch(code)
    if found is None or found["kind"] != "compute" or found["suffix"]:
        return False
    return capability >= divmod(int(found["number"]), 10)


def _version(text: str | None) -> Version | None:
    try:
        return Version(text) if text else None
    except InvalidVersion:
        return None
