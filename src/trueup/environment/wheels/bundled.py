"""Packages whose one wheel holds a library for each CUDA, of which it takes one when it is imported."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from trueup.environment.wheels import commands
from trueup.environment.wheels.here import Here, python_of
from trueup.environment.wheels.knowledge import Known
from trueup.environment.wheels.matrix import BundledRelease, table
from trueup.schema.environment import Environment
from trueup.schema.wheels import Candidate, Rejection, Resolution, Way


def resolve_bundled(
    package: str, known: Known, environment: Environment, here: Here, asked: str, wanted: SpecifierSet
) -> Resolution:
    """The newest release that holds a library for what is here."""
    project = table().bundled[package]
    candidates = [
        _candidate(package, release, here)
        for release in project.releases
        if wanted.contains(release.version, prereleases=True)
    ]
    candidates.sort(key=lambda each: (len(each.rejections), len(each.cautions)))  # stable: newest first among equals
    chosen = next((each for each in candidates if not each.rejections), None)
    return Resolution(
        package=package,
        asked=asked,
        verdict="no-wheel" if chosen is None else "fits",
        summary=f"{chosen.file} fits" if chosen else f"no release of {known.title} that was read fits what is here",
        here=here.in_words(),
        chosen=chosen,
        ways=() if chosen is None else (_install(environment, package, chosen),),
        candidates=tuple(candidates),
        installed=environment.packages[package].version if package in environment.packages else None,
        notes=(f"the table was read on {table().made} from the names of the files in the wheels", *known.unverified),
        sources=known.sources,
    )


def _install(environment: Environment, package: str, chosen: Candidate) -> Way:
    return Way(
        kind="wheel",
        title="install it",
        commands=commands.install(environment, [f"{package}=={chosen.version}"]),
        cost="; ".join(chosen.cautions),
    )


def _candidate(package: str, release: BundledRelease, here: Here) -> Candidate:
    return Candidate(
        file=release.file,
        url="",
        version=release.version,
        rejections=tuple(_rejections(release, here)),
        cautions=tuple(_cautions(package, release, here)),
    )


def _rejections(release: BundledRelease, here: Here) -> Iterator[Rejection]:
    python = python_of(here.python or "")
    if python is not None and release.requires_python and python not in SpecifierSet(release.requires_python):
        wanted = release.requires_python
        yield Rejection(axis="python", wheel=wanted, here=str(python), why=f"needs Python {wanted}, this is {python}")
    machine = release.platform.rpartition("_x86_64")[1].lstrip("_") or "aarch64"
    if here.platform != f"linux_{machine}":
        yield Rejection(
            axis="platform", wheel=machine, here=str(here.platform), why=f"built for {machine}, this is {here.platform}"
        )
    glibc = _glibc(release.platform)
    if glibc is not None and here.glibc is not None and here.glibc < glibc:
        yield Rejection(
            axis="glibc", wheel=str(glibc), here=str(here.glibc), why=f"needs glibc {glibc}, here is {here.glibc}"
        )
    if here.torch is None or not SpecifierSet(release.torch).contains(here.torch, prereleases=True):
        found = str(here.torch or "none")
        yield Rejection(
            axis="torch", wheel=release.torch, here=found, why=f"requires torch{release.torch}, here is {found}"
        )
    if here.rocm and not release.rocm:
        yield Rejection(axis="cuda", wheel="CUDA", here="ROCm", why="holds no library for ROCm")
    if here.cuda is not None and _library(release, here.cuda) is None:
        held = ", ".join(map(_dotted, release.cuda))
        yield Rejection(
            axis="cuda",
            wheel=held,
            here=str(here.cuda),
            why=f"holds libraries for CUDA {held}, torch here has {here.cuda}",
        )


def _cautions(package: str, release: BundledRelease, here: Here) -> Iterator[str]:
    chosen = None if here.cuda is None else _library(release, here.cuda)
    if here.cuda is not None and chosen is not None and _dotted(chosen) != str(here.cuda):
        yield f"holds no library for CUDA {here.cuda} and takes the one for {_dotted(chosen)}, with a warning"
    if here.rocm:
        yield f"holds libraries for ROCm {', '.join(release.rocm)}; which torch has here was not compared"
    if here.is_without_cuda and not here.rocm:
        yield f"{package} runs with its library for CPUs: what it has no CPU code for fails when it is called"
    if not here.cuda_is_known:
        yield "the CUDA of torch could not be read"


def _library(release: BundledRelease, cuda: Version) -> str | None:
    """The library that the package loads: that of the same CUDA, or where it looks further the nearest below, then
    above, of the same major version."""
    own = f"{cuda.major}{cuda.minor}"
    if own in release.cuda:
        return own
    same = sorted((each for each in release.cuda if int(each[:-1]) == cuda.major), key=int)
    if not release.nearest or not same:
        return None
    below = [each for each in same if int(each) < int(own)]
    return below[-1] if below else same[0]


def _glibc(platform: str) -> Version | None:
    parts = platform.split("_")
    return Version(f"{parts[1]}.{parts[2]}") if platform.startswith("manylinux_") else None


def _dotted(build: str) -> str:
    return f"{build[:-1]}.{build[-1]}"
