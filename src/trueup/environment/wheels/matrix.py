"""The table of published wheels, and the wheels it stands for; made by `scripts/publish_matrix.py`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from urllib.parse import quote

import msgspec
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag
from packaging.version import Version

from trueup.environment.wheels.filename import Label, WheelName
from trueup.environment.wheels.torch_release import default_string_abi
from trueup.schema.wheels import Evidence

TABLE = Path(__file__).with_name("data") / "published.json"
AXES = ("python", "torch", "cuda", "abi", "image")
ARM = "-arm"
"""How the name of a runner image for aarch64 ends."""


class GpuCode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    code: str
    """`sm_90`"""
    nvcc: str
    """Versions of nvcc for which it is made: `>=11.8`; empty for all."""


class Release(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One tag of a project."""

    version: str
    date: str
    commit: str
    workflow: str
    label: str
    """`major` or `minor`: whether names say cu12 or cu122."""
    python: tuple[str, ...]
    torch: tuple[str, ...]
    cuda: tuple[str, ...]
    abi: tuple[str, ...]
    image: tuple[str, ...]
    exclude: tuple[dict[str, str], ...]
    torch_builds: dict[str, tuple[str, ...]]
    gpu_code: tuple[GpuCode, ...]
    requires_python: str | None

    def cells(self) -> Iterator[dict[str, str]]:
        """The jobs of the matrix: the product of the axes, less what is excluded."""
        for values in itertools.product(self.python, self.torch, self.cuda, self.abi, self.image):
            cell = dict(zip(AXES, values, strict=True))
            if not any(rule.items() <= cell.items() for rule in self.exclude):
                yield cell


class Project(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    repository: str
    seen: str
    """Date of the newest commit that was there when the table was made."""
    commit: str
    releases: tuple[Release, ...]
    """The newest first."""


class PinnedRelease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A release for one torch, on torch's own index."""

    version: str
    date: str
    commit: str
    torch: str
    """`==2.9.1`"""
    builds: tuple[str, ...]
    """CUDA builds: `128`."""
    pythons: tuple[str, ...]
    """Empty for wheels that serve every Python from 3.9 on."""


class PinnedProject(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    repository: str
    seen: str
    commit: str
    releases: tuple[PinnedRelease, ...]


class BundledRelease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A release whose wheel holds a library for each CUDA."""

    version: str
    date: str
    """Of the newest file in the wheel."""
    file: str
    platform: str
    """`manylinux_2_24_x86_64`"""
    torch: str
    """`<3,>=2.4`, as its metadata requires; empty for any."""
    requires_python: str | None
    cuda: tuple[str, ...]
    """`128`: the CUDA versions for which there is a library."""
    rocm: tuple[str, ...]
    nearest: bool
    """Whether it takes the nearest library of the same major version where there is none for the CUDA of torch."""


class BundledProject(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    repository: str
    seen: str
    releases: tuple[BundledRelease, ...]
    """The newest first."""


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    made: str
    by: str
    projects: dict[str, Project]
    pinned: dict[str, PinnedProject] = {}
    bundled: dict[str, BundledProject] = {}


@dataclass(frozen=True)
class Wheel:
    """A file attached to a release, and what is known of how it was built."""

    name: WheelName
    repository: str
    tag: str
    torch: str
    """Release of torch it was built with: `2.8.0`."""
    cuda: str
    """Toolkit it was built with: `12.9`."""
    image: str
    gpu_code: tuple[str, ...]
    string_abi: str
    """`cxx11` or `old`, as built, whatever the label says."""
    torch_build: str | None
    """CUDA build of torch it was built with: `129`."""
    evidence: Evidence = "workflow"

    @property
    def url(self) -> str:
        """Where the projects keep their wheels. The plus is quoted, as servers and shells differ about it."""
        return f"{self.repository}/releases/download/{self.tag}/{quote(str(self.name))}"

    @property
    def label(self) -> Label:
        assert self.name.label is not None
        return self.name.label

    @property
    def machine(self) -> str:
        return self.name.tag.platform.removeprefix("linux_")

    @cached_property
    def version(self) -> Version:
        return Version(self.name.version)

    @property
    def is_as_labelled(self) -> bool:
        """Whether the string ABI is the one that the name promises."""
        return (self.string_abi == "cxx11") == self.label.cxx11_abi

    @property
    def combination(self) -> tuple[object, ...]:
        """What a newer release must also have for this wheel to be out of date: all that can decide whether it fits."""
        name, label = self.name, self.label
        return (
            *(name.tag.interpreter, name.tag.platform),
            *(label.torch, label.cuda_major, label.cxx11_abi),
            *(self.image, self.gpu_code),
        )


@cache
def table() -> Table:
    """The table of this version of trueup."""
    return msgspec.json.decode(TABLE.read_bytes(), type=Table)


def wheels(project: Project, release: Release, distribution: str) -> Iterator[Wheel]:
    """All that the matrix of a release lists."""
    for cell in release.cells():
        yield wheel_of(project, release, distribution, cell)


def wheel_of(project: Project, release: Release, distribution: str, cell: dict[str, str]) -> Wheel:
    """The wheel that one job of the matrix makes."""
    torch, cuda = _version(cell["torch"]), _version(cell["cuda"])
    minor = f"{torch.major}.{torch.minor}"
    toolkit = f"{cuda.major}.{cuda.minor}"
    label = Label(
        cuda=str(cuda.major) if release.label == "major" else f"{cuda.major}{cuda.minor}",
        torch=minor,
        cxx11_abi=cell["abi"] == "TRUE",
    )
    machine = "aarch64" if cell["image"].endswith(ARM) else "x86_64"
    python = "cp" + cell["python"].replace(".", "")
    name = WheelName(distribution, release.version, label, Tag(python, python, f"linux_{machine}"))
    build = torch_build(release.torch_builds.get(minor, ()), cuda)
    return Wheel(
        name=name,
        repository=project.repository,
        tag=f"v{release.version}",
        torch=cell["torch"],
        cuda=toolkit,
        image=cell["image"],
        gpu_code=gpu_code(release.gpu_code, toolkit),
        # FORCE_CXX11_ABI only ever switches the new ABI on: FALSE gives what that build of torch has
        string_abi="cxx11" if label.cxx11_abi else default_string_abi(torch, build, machine),
        torch_build=build,
    )


def torch_build(builds: tuple[str, ...], toolkit: Version) -> str | None:
    """The build of torch that the workflow installs for a toolkit: the newest not above it, else the nearest above."""
    same_major = sorted((build for build in builds if int(build) // 10 == toolkit.major), key=int)
    below = [build for build in same_major if int(build) <= toolkit.major * 10 + toolkit.minor]
    return below[-1] if below else next(iter(same_major), None)


@cache
def gpu_code(asked: tuple[GpuCode, ...], toolkit: str) -> tuple[str, ...]:
    """What nvcc of a toolkit makes of it."""
    return tuple(each.code for each in asked if toolkit in SpecifierSet(each.nvcc))


@cache
def _version(text: str) -> Version:
    """The same few stand in thousands of cells."""
    return Version(text)
