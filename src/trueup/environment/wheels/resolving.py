"""`--for PACKAGE`: from an environment to the wheel that fits it, or to the shortest way without one.

The environment and the tables are all it knows, unless an `ask` is handed in that reads releases from an index. What is
said about an address is what the tables say."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from trueup.environment.wheels import commands
from trueup.environment.wheels.alternatives import alternatives
from trueup.environment.wheels.another_torch import another_torch
from trueup.environment.wheels.bundled import resolve_bundled
from trueup.environment.wheels.candidates import newest_of_each, published
from trueup.environment.wheels.dependencies import Ask, resolve_any, with_moves
from trueup.environment.wheels.fitting import candidate_of
from trueup.environment.wheels.here import Here, code_of, here_of, python_of, runs
from trueup.environment.wheels.knowledge import Known, UnknownPackage, named
from trueup.environment.wheels.matrix import Wheel, table
from trueup.environment.wheels.pinned import resolve_pinned
from trueup.environment.wheels.source_build import source_build
from trueup.environment.wheels.torch_release import SOURCES as ABI_SOURCES
from trueup.environment.wheels.unmatrixed import resolve_pure, resolve_source
from trueup.schema.environment import Environment
from trueup.schema.wheels import Candidate, Resolution, Way

MISLABELLED = (
    "https://github.com/Dao-AILab/flash-attention/issues/1717",
    "https://github.com/Dao-AILab/flash-attention/issues/1783",
)


def resolve(environment: Environment, asked: str, ask: Ask | None = None) -> Resolution:
    """The answer for a package, which may carry a version: `flash-attn<2.8`. Raises UnknownPackage."""
    requirement = requirement_of(asked)
    try:
        package, known = named(requirement.name)
    except UnknownPackage:
        return resolve_any(environment, asked, ask)
    return with_moves(_resolved(environment, asked, package, known, requirement.specifier), environment, ask)


def _resolved(environment: Environment, asked: str, package: str, known: Known, wanted: SpecifierSet) -> Resolution:
    here = here_of(environment)
    if known.kind == "pure":
        found = resolve_pure(package, known, environment, here, asked)
    elif known.kind == "pinned":
        found = resolve_pinned(package, known, environment, here, asked, wanted)
    elif known.kind == "source":
        found = resolve_source(package, known, environment, here, asked)
    elif known.kind == "bundled":
        found = resolve_bundled(package, known, environment, here, asked, wanted)
    else:
        found = _resolve_released(package, known, environment, here, asked, wanted)
    return found


def requirement_of(asked: str) -> Requirement:
    """Name and wanted versions. Raises UnknownPackage for what is no requirement, or one of a single address."""
    try:
        requirement = Requirement(asked)
    except InvalidRequirement as error:
        raise UnknownPackage(f"{asked!r} is not a package: {str(error).splitlines()[0]}") from error
    if requirement.url:
        raise UnknownPackage(f"{asked!r} is an address, and what lies there is not read; give a name and a version")
    return requirement


def _resolve_released(
    package: str, known: Known, environment: Environment, here: Here, asked: str, wanted: SpecifierSet
) -> Resolution:
    project = table().projects[package]
    wheels, superseded = newest_of_each(published(project, known, wanted))
    pairs = [(candidate_of(wheel, here, known), wheel) for wheel in wheels]
    # stable: the newest stays first among equals
    pairs.sort(key=lambda pair: (len(pair[0].rejections), len(pair[0].cautions), _distance(pair[1], here)))
    candidates = tuple(candidate for candidate, _ in pairs)
    fitting = next((candidate for candidate in candidates if not candidate.rejections), None)
    blocked = _blocked(known, here, [wheel for _, wheel in pairs])
    chosen = None if blocked else fitting
    ways = tuple(_ways(package, known, environment, here, wheels, fitting, blocked, wanted))
    verdict = "cannot-run-here" if blocked else "fits" if chosen is not None else "no-wheel"
    return Resolution(
        package=package,
        asked=asked,
        verdict=verdict,  # type: ignore[arg-type]
        summary=blocked or _summary(known, here, chosen, candidates, wanted),
        here=here.in_words(),
        chosen=chosen,
        ways=ways,
        candidates=candidates,
        superseded=superseded,
        installed=environment.packages[package].version if package in environment.packages else None,
        notes=(
            f"the table was read on {table().made} from the tags of {project.repository} up to {project.seen}",
            *known.unverified,
        ),
        sources=tuple(_sources(known, candidates)),
    )


def _distance(wheel: Wheel, here: Here) -> int:
    """How many releases of torch and of Python lie between a wheel and what is here."""
    torch = Version(wheel.label.torch)
    steps = 0 if here.torch is None else abs(torch.minor - here.torch.minor) + 100 * abs(torch.major - here.torch.major)
    here_python, its_python = python_of(here.python or ""), python_of(wheel.name.tag.interpreter)
    if here_python is not None and its_python is not None:
        steps += abs(here_python.minor - its_python.minor)
    return steps


def _blocked(known: Known, here: Here, wheels: list[Wheel]) -> str | None:
    """Why no build of the package can run on this machine, in a sentence; None when one could."""
    if here.system != "linux":
        return f"{known.title} is published for Linux only, this is {here.system}"
    if here.rocm:
        return f"the wheels of {known.title} are for CUDA, torch here is built for ROCm"
    if not here.has_gpu:
        without = " and torch is built without CUDA" if here.is_without_cuda else ""
        return f"no NVIDIA GPU is here{without}: no build of {known.title} can run on this machine"
    codes = {code for wheel in wheels for code in wheel.gpu_code}
    for capability in dict.fromkeys(here.capabilities):
        if codes and not any(runs(code, capability) for code in codes):
            order = sorted(codes, key=lambda code: int(code.removeprefix("sm_").rstrip("a")))
            return (
                f"no release of {known.title} holds code for {code_of(capability)}: they hold {', '.join(order)}, "
                "and no PTX that a driver could compile"
            )
    return None


def _ways(
    package: str,
    known: Known,
    environment: Environment,
    here: Here,
    wheels: list[Wheel],
    fitting: Candidate | None,
    blocked: str | None,
    wanted: SpecifierSet,
) -> Iterator[Way]:
    if fitting is not None:
        yield Way(
            kind="elsewhere" if blocked else "wheel",
            title="for a machine with a GPU and this environment" if blocked else "install the wheel",
            commands=commands.install(environment, [fitting.url]),
            cost="; ".join(fitting.cautions),
        )
    if not blocked and fitting is None:
        other = another_torch(environment, here, known, wheels)
        built = source_build(environment, here, known, str(wanted))
        yield from (way for way in (other, built) if way is not None)
    if blocked or fitting is None:
        yield from alternatives(package, environment, here, known)


def _summary(
    known: Known, here: Here, chosen: Candidate | None, candidates: tuple[Candidate, ...], wanted: SpecifierSet
) -> str:
    if chosen is not None:
        return f"{chosen.file} fits"
    if not candidates:
        return f"no release of {known.title} in the table is {wanted}"
    if here.torch is None:
        return f"no torch is here, so no wheel of {known.title} can be chosen for it"
    if here.is_without_cuda:
        return f"no wheel of {known.title} fits: torch {here.torch} is built without CUDA"
    nearest = candidates[0]
    return f"no wheel of {known.title} fits; the nearest: {nearest.file} {nearest.rejections[0].why}"


def _sources(known: Known, candidates: tuple[Candidate, ...]) -> Iterator[str]:
    yield from known.sources
    axes = {rejection.axis for candidate in candidates for rejection in candidate.rejections}
    if "abi" in axes:
        yield from ABI_SOURCES
    if "broken" in axes:
        yield from MISLABELLED
    if "glibc" in axes:
        yield from (source for each in known.glibc for source in each.sources)
    if any(candidate.evidence == "reported" for candidate in candidates):
        yield from dict.fromkeys(source for added in known.added for source in added.sources)
