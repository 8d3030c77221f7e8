"""An extension needs a CUDA library of another major version than is installed."""

from __future__ import annotations

import re

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import torch_cuda
from trueup.rules.extension_facts import CUDA_LIBRARY, fits_python, rebuilt
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy


def detect_in_environment(environment: Environment) -> Sighting | None:
    cuda, torch = torch_cuda(environment), environment.torch
    if cuda is None or torch is None:
        return None
    found = [
        (extension, libraries)
        for extension in environment.extensions
        if fits_python(environment, extension)
        and (libraries := [name for name in extension.missing_libraries if CUDA_LIBRARY.fullmatch(name)])
    ]
    if not found:
        return None
    first, libraries = found[0]
    return Sighting(
        message=f"{first.file} needs {', '.join(libraries)}, which is not installed; torch brings CUDA {cuda}.",
        evidence=(
            Evidence(what="CUDA of torch", value=cuda),
            *(Evidence(what="needs", value=", ".join(names), at=each.file) for each, names in found[:5]),
        ),
        confidence="established" if _names_another_cuda(libraries, cuda) else "likely",
        remedies=rebuilt(environment, [extension for extension, _ in found]),
    )


def _names_another_cuda(libraries: list[str], cuda: str) -> bool:
    runtime = [found[1] for name in libraries if (found := re.match(r"libcudart\.so\.(\d+)", name))]
    return any(major != cuda.partition(".")[0] for major in runtime)


RULE = Rule(
    id="environment/extension-library-missing",
    title="An extension needs a CUDA library that is not installed",
    layers=("environment", "attention"),
    severity="error",
    silent="",
    cause=(
        "The extension was built for another CUDA major version than the one that torch brings, so the libraries that "
        "it names are not there."
    ),
    remedies=(
        Remedy(
            id="wheel-for-this-cuda",
            kind="install",
            automatic=False,
            how="install the wheel of the extension for the CUDA of torch (cu12, cu13), or build it here",
        ),
    ),
    caution="A library that the program loads beforehand is found although the loader alone would not find it.",
    log=(
        LogText(
            text="libcudart.so.<version>: cannot open shared object file",
            strength="supporting",
            versions="the dynamic loader; torch brings this library for its own CUDA major version only",
        ),
        LogText(
            text="libcublas.so.<version>: cannot open shared object file",
            strength="supporting",
            versions="the dynamic loader",
        ),
        LogText(
            text="libnvrtc.so.<version>: cannot open shared object file",
            strength="supporting",
            versions="the dynamic loader",
        ),
    ),
    from_environment=detect_in_environment,
)
