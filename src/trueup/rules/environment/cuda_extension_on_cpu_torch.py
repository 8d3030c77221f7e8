"""An extension with CUDA code beside a torch without."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.environment_facts import install
from trueup.rules.extension_facts import CUDA_LIBRARY, GO_ON_WITHOUT, are_optional, fits_python, rebuilt
from trueup.schema.environment import Environment, Extension
from trueup.schema.finding import Evidence, Remedy


def detect_in_environment(environment: Environment) -> Sighting | None:
    torch = environment.torch
    if torch is None or torch.cuda or torch.hip:
        return None
    found = [
        extension
        for extension in environment.extensions
        if fits_python(environment, extension) and (extension.missing_cuda_symbols or _cuda_libraries(extension))
    ]
    if not found:
        return None
    found.sort(key=lambda each: are_optional([each]))
    packages = [name for name in dict.fromkeys(each.package for each in found) if name]
    paired = [remedy for remedy in rebuilt(environment, found) if remedy.id.startswith("paired-")]
    removable = [name for name in packages if name not in ("torchvision", "torchaudio", *GO_ON_WITHOUT)]
    if removable:
        paired.append(install(environment, *removable, verb="uninstall", id="uninstall-cuda-extension"))
    return Sighting(
        message=f"{found[0].file} needs a CUDA build of torch, and torch {torch.version} is built for the CPU only.",
        evidence=(
            Evidence(what="torch installed", value=torch.version),
            *(Evidence(what="needs", value=_needed(each), at=each.file) for each in found[:5]),
        ),
        severity="note" if are_optional(found) else None,
        remedies=tuple(paired),
    )


def _cuda_libraries(extension: Extension) -> tuple[str, ...]:
    return tuple(name for name in extension.missing_libraries if CUDA_LIBRARY.fullmatch(name))


def _needed(extension: Extension) -> str:
    return ", ".join(_cuda_libraries(extension)) or extension.missing_cuda_symbols[0]


RULE = Rule(
    id="environment/cuda-extension-on-cpu-torch",
    title="An extension with CUDA code beside a torch without CUDA",
    layers=("environment", "attention"),
    severity="warning",
    silent="Libraries that import it as an option may go on without it, and say so only at debug level.",
    cause="The extension links against libc10_cuda and the CUDA runtime, which the CPU build of torch does not bring.",
    remedies=(
        Remedy(
            id="one-build-for-both",
            kind="install",
            automatic=False,
            how="install the CUDA build of torch, or the CPU build of the extension, or remove the extension",
        ),
    ),
    caution="No fault of the string ABI or of the release: with a CUDA build of torch the same file may load.",
    from_environment=detect_in_environment,
)
