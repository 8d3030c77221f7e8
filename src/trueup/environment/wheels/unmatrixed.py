"""Packages without a matrix of wheels: one wheel for all that compiles on first use, and one that is only built."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.specifiers import SpecifierSet
from packaging.tags import Tag

from trueup.environment.wheels import commands
from trueup.environment.wheels.alternatives import alternatives
from trueup.environment.wheels.filename import WheelName
from trueup.environment.wheels.here import Here, code_of, python_of
from trueup.environment.wheels.knowledge import Known
from trueup.environment.wheels.source_build import source_build
from trueup.environment.wheels.torch_release import index_of
from trueup.schema.environment import Environment
from trueup.schema.wheels import Candidate, Rejection, Resolution, Way

RELEASES = "https://github.com/Dao-AILab/flash-attention/releases/download"


def resolve_pure(package: str, known: Known, environment: Environment, here: Here, asked: str) -> Resolution:
    """One `py3-none-any` wheel; the compiler comes with its dependencies."""
    assert known.version is not None
    name = WheelName(known.distribution, known.version, None, Tag("py3", "none", "any"))
    tag = known.version.replace("b", ".beta")
    blocked = _blocked(known, here)
    candidate = Candidate(
        file=str(name),
        url=f"{RELEASES}/fa4-v{tag}/{name}",
        version=known.version,
        rejections=tuple(_rejections(known, here)),
        cautions=tuple(_training(known, here)),
    )
    fits = not candidate.rejections and not blocked
    extra = f"[{known.cuda13_extra}]" if known.cuda13_extra and here.cuda is not None and here.cuda.major >= 13 else ""
    way = Way(
        kind="wheel",
        title="install it; kernels are compiled on first use",
        commands=commands.install(environment, [f"{package}{extra}>={known.version}"]),
        moves=tuple(f"installs {each}" for each in known.requires),
        cost="a beta; each kernel is compiled when first called, in every process without a warm cache",
        sources=known.sources[:1],
    )
    ways = (way,) if fits else tuple(alternatives(package, environment, here, known))
    return _resolution(
        package, known, environment, here, asked,
        summary=blocked or (f"{name} fits" if fits else f"{known.title} does not fit: {candidate.rejections[0].why}"),
        verdict="cannot-run-here" if blocked else "fits" if fits else "no-wheel",
        chosen=candidate if fits else None, candidates=(candidate,), ways=ways,
    )  # fmt: skip


def resolve_source(package: str, known: Known, environment: Environment, here: Here, asked: str) -> Resolution:
    """No wheels of the project; torch's own index is reported to have some."""
    blocked = _blocked(known, here)
    ways: list[Way] = []
    if not blocked:
        ways += _from_index(known, environment, here)
        built = source_build(environment, here, known)
        ways += [built] if built is not None else []
    ways += alternatives(package, environment, here, known)
    return _resolution(
        package, known, environment, here, asked,
        summary=blocked or f"{known.title} has no wheels of its own project; {_count(ways)}",
        verdict="cannot-run-here" if blocked else "no-wheel",
        ways=tuple(ways),
    )  # fmt: skip


def _count(ways: list[Way]) -> str:
    kinds = [way.kind for way in ways]
    if "index" in kinds:
        return "torch's own index is reported to have one for this torch"
    return "it can be built here" if "source" in kinds else "it cannot be built for the torch that is here"


def _from_index(known: Known, environment: Environment, here: Here) -> Iterator[Way]:
    index = known.index
    if index is None or here.torch is None or here.cuda is None:
        return
    build = f"{here.cuda.major}{here.cuda.minor}"
    if build in index.builds and SpecifierSet(index.torch).contains(here.torch.base_version):
        yield Way(
            kind="index",
            title=f"a wheel from torch's own index for CUDA {here.cuda}, for torch {index.torch}",
            commands=commands.install(environment, [index.name], index=index_of(build)),
            cost="reported, not verified",
            sources=index.sources,
        )


def _blocked(known: Known, here: Here) -> str | None:
    if here.system != "linux" or here.rocm:
        return f"{known.title} needs Linux and CUDA, this is {here.system}{' with ROCm' if here.rocm else ''}"
    if not here.has_gpu:
        return f"no NVIDIA GPU is here: {known.title} cannot run on this machine"
    for capability in here.capabilities:
        if capability[0] not in known.capabilities:
            return f"{known.title} has no kernels for {code_of(capability)}: it is for {known.capability_words}"
    return None


def _rejections(known: Known, here: Here) -> Iterator[Rejection]:
    wanted = known.requires_python
    python = python_of(here.python or "")
    if wanted and python is not None and python not in SpecifierSet(wanted):
        yield Rejection(axis="python", wheel=wanted, here=str(python), why=f"needs Python {wanted}, this is {python}")
    if here.torch is None:
        yield Rejection(axis="torch", wheel="any", here="none", why="needs torch, none is here")
    elif here.is_without_cuda:
        yield Rejection(axis="cuda", wheel="CUDA", here="none", why=f"torch {here.torch} is built without CUDA")
    for capability in dict.fromkeys(here.torch_lacks):
        code = code_of(capability)
        yield Rejection(axis="gpu", wheel="", here=code, why=f"torch {here.torch} itself holds no code for {code}")


def _training(known: Known, here: Here) -> Iterator[str]:
    for capability in here.capabilities:
        if capability[0] in known.no_backward:
            yield f"forward only on {code_of(capability)}: its backward asks for sm_90 or newer"


def _resolution(
    package: str,
    known: Known,
    environment: Environment,
    here: Here,
    asked: str,
    *,
    summary: str,
    verdict: str,
    ways: tuple[Way, ...],
    chosen: Candidate | None = None,
    candidates: tuple[Candidate, ...] = (),
) -> Resolution:
    return Resolution(
        package=package,
        asked=asked,
        verdict=verdict,  # type: ignore[arg-type]
        summary=summary,
        here=here.in_words(),
        chosen=chosen,
        ways=ways,
        candidates=candidates,
        installed=environment.packages[package].version if package in environment.packages else None,
        notes=(f"upstream was read up to {known.seen}", *known.unverified),
        sources=known.sources,
    )
