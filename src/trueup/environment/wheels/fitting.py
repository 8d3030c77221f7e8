"""One wheel against one environment: every reason why it does not fit, not only the first."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

from trueup.environment.wheels.here import Here, code_of, runs
from trueup.environment.wheels.knowledge import Known
from trueup.environment.wheels.matrix import Wheel
from trueup.schema.wheels import Candidate, Rejection

BUILT_ON_GLIBC = {"ubuntu-20.04": "2.31", "ubuntu-22.04": "2.35"}
"""glibc of a runner image: what is built there never asks for a newer one, often for an older one."""


def candidate_of(wheel: Wheel, here: Here, known: Known) -> Candidate:
    """The wheel with all that speaks against it."""
    return Candidate(
        file=str(wheel.name),
        url=wheel.url,
        version=wheel.name.version,
        evidence=wheel.evidence,
        rejections=tuple(rejections(wheel, here, known)),
        cautions=tuple(cautions(wheel, here, known)),
    )


def rejections(wheel: Wheel, here: Here, known: Known) -> Iterator[Rejection]:
    """In the order in which a resolver would meet them."""
    for check in (_broken, _python, _platform, _torch, _cuda, _abi, _glibc, _gpu):
        yield from check(wheel, here, known)


def cautions(wheel: Wheel, here: Here, known: Known) -> Iterator[str]:
    """What is not known, and could go wrong."""
    if wheel.evidence == "reported":
        yield "attached to the release by hand and known from public reports only; a 404 means that it is gone"
    if here.torch is not None and here.torch.is_prerelease:
        yield f"torch {here.torch} is no final release; the wheel was built with {wheel.torch}"
    if here.has_gpu and not here.capabilities:
        yield f"the GPU's compute capability could not be read; the wheel holds code for {', '.join(wheel.gpu_code)}"
    if not here.cuda_is_known:
        wanted = wheel.label.cuda_major
        yield f"the CUDA that torch {here.torch} was built for could not be read; this wheel is for {wanted}"
    if here.glibc is None:
        yield "the version of glibc could not be read"
    built_on, asks = _glibc_of(wheel, known)
    if here.glibc is not None and asks is None and built_on is not None and here.glibc < built_on:
        yield (
            f"built where glibc is {built_on}, newer than {here.glibc} here; "
            "whether it asks for symbols newer than that was not verified"
        )


def _broken(wheel: Wheel, here: Here, known: Known) -> Iterator[Rejection]:
    """FORCE_CXX11_ABI=FALSE does not switch the new ABI off, and 2.6 for CUDA 12.6 already has it."""
    if not wheel.is_as_labelled:
        yield Rejection(
            axis="broken",
            wheel="labelled cxx11abiFALSE",
            here="",
            why=f"mislabelled: built with torch {wheel.torch} for CUDA {_dotted(wheel.torch_build)}, "
            "which has the new string ABI",
        )


def _python(wheel: Wheel, here: Here, known: Known) -> Iterator[Rejection]:
    wanted = wheel.name.tag.interpreter
    if wanted != here.python:
        yield Rejection(
            axis="python", wheel=wanted, here=str(here.python), why=f"built for {wanted}, this is {here.python}"
        )


def _platform(wheel: Wheel, here: Here, known: Known) -> Iterator[Rejection]:
    wanted = wheel.name.tag.platform
    if wanted != here.platform:
        yield Rejection(
            axis="platform", wheel=wanted, here=str(here.platform), why=f"built for {wanted}, this is {here.platform}"
        )


def _torch(wheel: Wheel, here: Here, known: Known) -> Iterator[Rejection]:
    wanted, found = wheel.label.torch, here.torch_minor
    if found is None:
        yield Rejection(axis="torch", wheel=wanted, here="none", why=f"built for torch {wanted}, no torch is here")
    elif wanted != found:
        yield Rejection(axis="torch", wheel=wanted, here=found, why=f"built for torch {wanted}, here is {here.torch}")


def _cuda(wheel: Wheel, here: Here, known: Known) -> Iterator[Rejection]:
    wanted = f"CUDA {wheel.label.cuda_major}"
    if here.torch is None or not here.cuda_is_known:
        return
    if here.cuda is None:
        what = "ROCm" if here.rocm else "no CUDA"
        yield Rejection(
            axis="cuda", wheel=wanted, here=what, why=f"needs a torch with {wanted}, {here.torch} has {what}"
        )
    elif here.cuda.major != wheel.label.cuda_major:
        found = f"CUDA {here.cuda.major}"
        yield Rejection(axis="cuda", wheel=wanted, here=found, why=f"built for {wanted}, torch here has {found}")


def _abi(wheel: Wheel, here: Here, known: Known) -> Iterator[Rejection]:
    if here.string_abi is not None and here.string_abi != wheel.string_abi:
        words = {"cxx11": "the new string ABI (cxx11abiTRUE)", "old": "the old string ABI (cxx11abiFALSE)"}
        yield Rejection(
            axis="abi",
            wheel=wheel.string_abi,
            here=here.string_abi,
            why=f"has {words[wheel.string_abi]}, torch here has {words.get(here.string_abi, here.string_abi)}",
        )


def _glibc(wheel: Wheel, here: Here, known: Known) -> Iterator[Rejection]:
    _, asks = _glibc_of(wheel, known)
    if here.glibc is not None and asks is not None and here.glibc < asks:
        yield Rejection(
            axis="glibc",
            wheel=str(asks),
            here=str(here.glibc),
            why=f"asks for GLIBC_{asks}, here is glibc {here.glibc}",
        )


def _gpu(wheel: Wheel, here: Here, known: Known) -> Iterator[Rejection]:
    for capability in dict.fromkeys(here.torch_lacks):
        code = code_of(capability)
        yield Rejection(
            axis="gpu",
            wheel="",
            here=code,
            why=f"torch {here.torch} itself holds no code for {code}, so nothing runs on it here",
        )
    for capability in dict.fromkeys(here.capabilities):
        if not any(runs(code, capability) for code in wheel.gpu_code):
            holds = ", ".join(wheel.gpu_code)
            yield Rejection(
                axis="gpu",
                wheel=holds,
                here=code_of(capability),
                why=f"holds code for {holds} and no PTX, a GPU here is {code_of(capability)}",
            )


def _glibc_of(wheel: Wheel, known: Known) -> tuple[Version | None, Version | None]:
    """(of the image it was built on, newest that it is known to ask for)"""
    built_on = BUILT_ON_GLIBC.get(wheel.image.removesuffix("-arm"))
    asks = next((each.asks for each in known.glibc if each.image == wheel.image), None)
    return (None if built_on is None else Version(built_on)), (None if asks is None else Version(asks))


def _dotted(build: str | None) -> str:
    return "an unknown version" if build is None else f"{build[:-1]}.{build[-1]}"
