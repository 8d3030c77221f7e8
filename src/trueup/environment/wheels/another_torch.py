"""The torch for which there is a wheel, when there is none for the torch that is here, and what that would move."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import Version

from trueup.environment.wheels import commands
from trueup.environment.wheels.fitting import cautions, rejections
from trueup.environment.wheels.here import Here
from trueup.environment.wheels.knowledge import Known
from trueup.environment.wheels.matrix import Wheel
from trueup.environment.wheels.torch_release import default_string_abi, index_of, serves
from trueup.schema.environment import Environment
from trueup.schema.wheels import Way

COMPANIONS = ("torchvision", "torchaudio", "triton")
"""Released in step with torch: another torch needs another of each."""


def another_torch(environment: Environment, here: Here, known: Known, wheels: Iterable[Wheel]) -> Way | None:
    """Install the nearest torch with a wheel, and the wheel. None when no torch would help."""
    fitting = [wheel for wheel in wheels if _would_fit(wheel, here, known)]
    if not fitting:
        return None
    chosen = max(fitting, key=lambda wheel: _nearness(wheel, here))
    assert chosen.torch_build is not None
    torch = commands.install(environment, [f"torch=={chosen.torch}"], index=index_of(chosen.torch_build))
    return Way(
        kind="another-torch",
        title=f"torch {chosen.torch} for CUDA {chosen.torch_build[:-1]}.{chosen.torch_build[-1]}, "
        f"for which there is {chosen.name}",
        commands=commands.then(torch, commands.install(environment, [chosen.url])),
        moves=tuple(_moves(environment, here, Version(chosen.torch))),
        cost="; ".join(
            (
                "everything else that is compiled against torch must be installed anew for the other torch",
                *cautions(chosen, _with_torch_of(chosen, here), known),
            )
        ),
    )


def _would_fit(wheel: Wheel, here: Here, known: Known) -> bool:
    """With its own torch, when the driver and the GPU allow that torch."""
    build = wheel.torch_build
    if build is None or here.rocm:
        return False
    torch = Version(wheel.torch)
    if here.driver_cuda is not None and int(build) // 10 > here.driver_cuda.major:
        return False
    if any(serves(torch, build, capability) is False for capability in here.capabilities):
        return False
    return not any(True for _ in rejections(wheel, _with_torch_of(wheel, here), known))


def _with_torch_of(wheel: Wheel, here: Here) -> Here:
    """The environment as it would be with the very build of torch that a wheel was built with."""
    torch, build = Version(wheel.torch), wheel.torch_build
    assert build is not None
    return replace(
        here,
        torch=torch,
        cuda=Version(f"{build[:-1]}.{build[-1]}"),
        cuda_is_known=True,
        string_abi=default_string_abi(torch, build, wheel.machine),
        torch_lacks=(),
    )


def _nearness(wheel: Wheel, here: Here) -> tuple[float, bool, bool, Version]:
    """Nearest release of torch, then the CUDA that is there, then what a workflow lists, then the newest."""
    torch = Version(wheel.torch)
    step = 0 if here.torch is None else abs(_steps(torch) - _steps(here.torch))
    newest = _steps(torch) if here.torch is None else 0
    same_cuda = here.cuda is not None and here.cuda.major == wheel.label.cuda_major
    return (newest - step, same_cuda, wheel.evidence == "workflow", wheel.version)


def _steps(torch: Version) -> int:
    return torch.major * 100 + torch.minor


def _moves(environment: Environment, here: Here, torch: Version) -> Iterator[str]:
    yield f"installs torch {torch}" if here.torch is None else f"torch {here.torch} → {torch}"
    for name in COMPANIONS:
        if name in environment.packages:
            yield f"{name} {environment.packages[name].version} → the one that belongs to torch {torch}"
    for package in environment.packages.values():
        for line in package.requires:
            try:
                requirement = Requirement(line)
            except InvalidRequirement:
                continue
            if requirement.name.lower() != "torch" or package.name in COMPANIONS:
                continue
            if "extra" in str(requirement.marker or "") or torch in requirement.specifier:
                continue
            yield f"{package.name} {package.version} requires torch{requirement.specifier} and would be broken"
    compiled = dict.fromkeys(
        each.package
        for each in environment.extensions
        if each.package and not each.stable_abi and each.package not in ("torch", *COMPANIONS)
    )
    if compiled:
        yield f"compiled against the torch that is here: {', '.join(compiled)}"
