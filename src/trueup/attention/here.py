"""The place of a call out of the files of an environment: its GPU and the releases of what is installed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from trueup.attention.call import Place, Version
from trueup.attention.devices import capability, processor
from trueup.attention.limits import code
from trueup.environment.gpus import search
from trueup.environment.host import Host
from trueup.environment.interpreter import interpreter_of, package_folders
from trueup.environment.packages import installed
from trueup.environment.target import Target
from trueup.environment.torch_build import torch_facts, torch_folder

PACKAGES = ("torch", "transformers", "flash-attn", "flash-attn-3", "flash-attn-4", "xformers", "kernels")
NEWEST_TORCH: Version = (2, 13)
"""What is assumed where no torch is installed, and none is named."""
SHIPPED: tuple[tuple[Version, Version, Version], ...] = (
    ((2, 14), (13, 0), (9, 24, 0)),
    ((2, 12), (13, 0), (9, 20, 0)),
    ((2, 11), (13, 0), (9, 19, 0)),
    ((2, 8), (12, 8), (9, 10, 2)),
    ((2, 7), (12, 6), (9, 5, 1)),
    ((2, 5), (12, 4), (9, 1, 0)),
    ((0,), (12, 1), (8, 9, 2)),
)
"""torch from a release on → CUDA and cuDNN of the wheel that `pip install torch` takes on Linux.

As the metadata of those wheels requires them; 2.13 by https://github.com/pytorch/pytorch/pull/187091, which came later.
"""
OLDEST_OF_CUDA_13: Version = (7, 5)
"""Turing: https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/"""


@dataclass(frozen=True, slots=True)
class Here:
    """A place, and what of it was assumed."""

    place: Place
    gpu: str = ""
    """Name of the GPU, as it was given or as its driver says; empty for a CPU."""
    device: str = ""
    """Name of the GPU or CPU that is attached, under which measurements of it are kept; empty for one named."""
    notes: tuple[str, ...] = ()


def here(target: Target, host: Host, *, gpu: str | None = None, torch: Version | None = None) -> Here:
    """What is installed in `target` on its GPU; `gpu` and `torch` stand in for those that are there.

    Nothing is imported. Raises UnknownGpu.
    """
    looking = search(host, target.prefix) if gpu is None else None
    asked = capability(gpu) if gpu is not None else None
    folders = package_folders(target, interpreter_of(target), host)
    packages, _ = installed(folders)
    versions = {name: release(packages[name].version) for name in PACKAGES if name in packages}
    folder = torch_folder(folders)
    build = None if folder is None else torch_facts(folder)
    notes: list[str] = []
    if torch is not None:
        versions["torch"] = torch
    elif build is not None:
        versions["torch"] = release(build.version)
    elif "torch" not in versions:
        versions["torch"] = NEWEST_TORCH
        notes.append(f"torch {text(NEWEST_TORCH)}, as none is installed; --torch names another")
    name, found = gpu or "", asked
    if looking is not None:
        name, found = _attached(looking.found()[1])
    if build is not None and build.hip:
        notes.append(f"a GPU of NVIDIA; torch {build.version} is built for ROCm, whose kernels are not described")
    if found is None:
        return Here(Place(versions=versions), device=processor(host.text("/proc/cpuinfo") or ""), notes=tuple(notes))
    if build is not None and build.cuda is None and torch is None:
        notes.append(f"a build with CUDA of torch {text(release(build.version))}; the one installed is {build.version}")
    cudnn = next((each.version for key, each in packages.items() if key.startswith("nvidia-cudnn-cu")), None)
    versions |= _libraries(versions["torch"], build.cuda if build else None, cudnn, notes)
    if versions["cuda"] >= (13,) and found < OLDEST_OF_CUDA_13:
        notes.append(f"a build of torch with code for {code(found)}, which CUDA 13 cannot make: one of CUDA 12.6")
    place = Place(device="cuda", capability=found, versions=versions)
    return Here(place, name, "" if looking is None else name, tuple(notes))


def _attached(gpus: object) -> tuple[str, Version | None]:
    assert isinstance(gpus, tuple)
    for gpu in gpus:
        if gpu.compute_capability:
            return gpu.name, capability(gpu.compute_capability)
    return "", None


def _libraries(torch: Version, cuda: str | None, cudnn: str | None, notes: list[str]) -> Mapping[str, Version]:
    """CUDA and cuDNN: what is installed, else what comes with that torch."""
    shipped = next((cuda, cudnn) for since, cuda, cudnn in SHIPPED if torch >= since)
    if cudnn is None:
        notes.append(f"cuDNN {text(shipped[1])}, which comes with torch {text(torch)}")
    return {
        "cuda": release(cuda) if cuda else shipped[0],
        "cudnn": release(cudnn)[:3] if cudnn else shipped[1],
    }


def with_switches(found: Here, *, disabled: frozenset[str], deterministic: bool) -> Here:
    """The place with kernels switched off and deterministic algorithms asked for."""
    return replace(found, place=replace(found.place, disabled=disabled, deterministic=deterministic))


def release(version: str) -> Version:
    """`2.13.0+cpu` → (2, 13, 0)"""
    return tuple(map(int, re.findall(r"\d+", re.match(r"[\d.]*", version)[0])))  # type: ignore[index]


def text(version: Version) -> str:
    return ".".join(map(str, version))
