"""Packages of which each release is for one torch, and that lie on torch's own index, one build for each CUDA."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from trueup.environment.wheels import commands
from trueup.environment.wheels.here import Here, python_of
from trueup.environment.wheels.knowledge import Known
from trueup.environment.wheels.matrix import PinnedProject, PinnedRelease, table
from trueup.environment.wheels.torch_release import index_of, serves
from trueup.schema.environment import Environment
from trueup.schema.wheels import Candidate, Rejection, Resolution, Verdict, Way

MACHINE, GLIBC, OLDEST_PYTHON = "x86_64", Version("2.28"), Version("3.9")
"""manylinux_2_28_x86_64 is the platform of all Linux wheels that the workflow uploads."""


def resolve_pinned(
    package: str, known: Known, environment: Environment, here: Here, asked: str, wanted: SpecifierSet
) -> Resolution:
    """The newest release for this torch, from the index of its CUDA."""
    project = table().pinned[package]
    pairs = [
        (_candidate(package, release, build, here), release, build)
        for release in project.releases
        if wanted.contains(release.version, prereleases=True)
        for build in reversed(release.builds)
    ]
    pairs.sort(key=lambda each: (len(each[0].rejections), len(each[0].cautions)))  # stable: newest first among equals
    fitting = next(((candidate, build) for candidate, _, build in pairs if not candidate.rejections), None)
    blocked = None if here.has_gpu and not here.rocm else f"no NVIDIA GPU is here: {known.title} has no kernels to run"
    ways: list[Way] = []
    if fitting is not None:
        ways.append(_install(environment, fitting[0], fitting[1], is_elsewhere=blocked is not None))
    elif not blocked:
        ways += _another_torch(environment, here, package, [(release, build) for _, release, build in pairs])
    verdict: Verdict = "cannot-run-here" if blocked else "fits" if fitting is not None else "no-wheel"
    chosen = fitting[0] if fitting is not None and not blocked else None
    return Resolution(
        package=package,
        asked=asked,
        verdict=verdict,
        summary=blocked or (f"{chosen.file} fits" if chosen else f"no release of {known.title} is for what is here"),
        here=here.in_words(),
        chosen=chosen,
        ways=tuple(ways),
        candidates=tuple(candidate for candidate, _, _ in pairs),
        installed=environment.packages[package].version if package in environment.packages else None,
        notes=(_age(project), *known.unverified),
        sources=known.sources,
    )


def _candidate(package: str, release: PinnedRelease, build: str, here: Here) -> Candidate:
    cautions: tuple[str, ...] = ()
    if here.cuda is not None and f"{here.cuda.major}{here.cuda.minor}" != build:
        cautions = (f"built with CUDA {build[:-1]}.{build[-1]}, torch here with {here.cuda}: the same major version",)
    return Candidate(
        file=f"{package}=={release.version} (cu{build})",
        url=f"{index_of(build)}/{package}",
        version=release.version,
        rejections=tuple(_rejections(release, build, here)),
        cautions=cautions,
    )


def _rejections(release: PinnedRelease, build: str, here: Here) -> Iterator[Rejection]:
    python = python_of(here.python or "")
    pythons = ", ".join(release.pythons) or f">={OLDEST_PYTHON}"
    serves_python = (
        str(python) in release.pythons if release.pythons else python is not None and python >= OLDEST_PYTHON
    )
    if not serves_python:
        found = here.python or "not known"
        yield Rejection(axis="python", wheel=pythons, here=found, why=f"built for Python {pythons}, this is {found}")
    if here.platform != f"linux_{MACHINE}":
        yield Rejection(
            axis="platform", wheel=MACHINE, here=str(here.platform), why=f"built for {MACHINE}, this is {here.platform}"
        )
    if here.glibc is not None and here.glibc < GLIBC:
        yield Rejection(
            axis="glibc", wheel=str(GLIBC), here=str(here.glibc), why=f"needs glibc {GLIBC}, here is {here.glibc}"
        )
    if here.torch is None or not SpecifierSet(release.torch).contains(here.torch.public, prereleases=True):
        found = str(here.torch or "none")
        yield Rejection(
            axis="torch", wheel=release.torch, here=found, why=f"requires torch{release.torch}, here is {found}"
        )
    if here.is_without_cuda or (here.cuda is not None and here.cuda.major != int(build) // 10):
        found = "ROCm" if here.rocm else "no CUDA" if here.cuda is None else f"CUDA {here.cuda}"
        wanted = f"CUDA {int(build) // 10}"
        yield Rejection(axis="cuda", wheel=wanted, here=found, why=f"built for {wanted}, torch here has {found}")


def _install(environment: Environment, candidate: Candidate, build: str, *, is_elsewhere: bool) -> Way:
    name = candidate.file.partition(" ")[0]
    return Way(
        kind="elsewhere" if is_elsewhere else "wheel",
        title="for a machine with a GPU and this environment" if is_elsewhere else "install it from torch's own index",
        commands=commands.install(environment, [name], index=index_of(build)),
        cost="; ".join(candidate.cautions),
    )


def _another_torch(
    environment: Environment, here: Here, package: str, pairs: list[tuple[PinnedRelease, str]]
) -> Iterator[Way]:
    """The nearest torch of which there is a release, for a CUDA that the driver and the GPU allow."""
    possible = [(release, build, torch) for release, build in pairs if (torch := _serving(release, build, here))]
    if not possible:
        return
    have = here.torch or Version("1000")
    release, build, torch = min(
        possible,
        key=lambda each: (abs(each[2].major - have.major), abs(each[2].minor - have.minor), -int(each[1])),
    )
    yield Way(
        kind="another-torch",
        title=f"torch {torch} for CUDA {build[:-1]}.{build[-1]}, for which there is {package} {release.version}",
        commands=commands.install(
            environment, [f"torch=={torch}", f"{package}=={release.version}"], index=index_of(build)
        ),
        moves=(f"installs torch {torch}" if here.torch is None else f"torch {here.torch} → {torch}",),
        cost="everything else that is compiled against torch must be installed anew for the other torch",
    )


def _serving(release: PinnedRelease, build: str, here: Here) -> Version | None:
    """The torch of a release, when with it nothing else would speak against the release."""
    torch = Version(next(iter(SpecifierSet(release.torch))).version)
    is_driven = here.driver_cuda is None or int(build) // 10 <= here.driver_cuda.major
    has_code = all(serves(torch, build, capability) is not False for capability in here.capabilities)
    others = {rejection.axis for rejection in _rejections(release, build, here)} - {"torch", "cuda"}
    return torch if is_driven and has_code and not others else None


def _age(project: PinnedProject) -> str:
    return f"the table was read on {table().made} from the tags of {project.repository} up to {project.seen}"
