"""An extension and torch were compiled with different ABIs of std::string."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.extension_facts import are_optional, broken_extensions, missing_symbols, rebuilt
from trueup.rules.log_facts import mentions
from trueup.rules.symbols import UNDEFINED, for_package, missing_symbol
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log

ABIS = {"cxx11": "the new string ABI (C++11)", "old": "the old string ABI"}
OTHER = {"cxx11": "old", "old": "cxx11"}


def detect_log(log: Log) -> Sighting | None:
    for seen in mentions(log, UNDEFINED):
        missing = missing_symbol(seen.part.said[: seen.found.end()])
        if missing is None or not missing.of_torch or not missing.takes_string:
            continue
        name = missing.distribution or missing.file or "The extension"
        built = ABIS[missing.string_abi] if missing.string_abi else "one string ABI"
        theirs = ABIS[OTHER[missing.string_abi]] if missing.string_abi else "the other"
        return Sighting(
            message=f"{name} was compiled with {built}; the installed torch uses {theirs}.",
            evidence=(seen.evidence(log), Evidence(what="symbol that torch does not export", value=missing.symbol)),
            confidence="established" if missing.string_abi else "likely",
            remedies=for_package(REMEDIES, missing.distribution),
            failure=seen.failure,
        )
    return None


REMEDIES = (
    Remedy(
        id="rebuild-extension",
        kind="install",
        automatic=False,
        how="pip install --force-reinstall --no-deps --no-cache-dir --no-build-isolation PACKAGE, with the torch to "
        "use installed before",
    ),
    Remedy(
        id="show-string-abi",
        kind="install",
        automatic=False,
        how='python -c "import torch; print(torch.__version__, torch._C._GLIBCXX_USE_CXX11_ABI)", and a wheel whose '
        "name has the same torch and cxx11abiTRUE or cxx11abiFALSE",
    ),
    Remedy(
        id="uninstall-extension",
        kind="install",
        automatic=False,
        how="pip uninstall PACKAGE, where it is optional or the GPU cannot use it",
    ),
)


def detect_in_environment(environment: Environment) -> Sighting | None:
    torch = environment.torch
    if torch is None or torch.string_abi is None:
        return None
    found = [
        (extension, symbols)
        for extension, symbols in broken_extensions(environment)
        if extension.string_abi in ("cxx11", "old") and extension.string_abi != torch.string_abi
    ]
    if not found:
        return None
    first, symbols = found[0]
    more = f", and {len(found) - 1} more files do" if len(found) > 1 else ""
    return Sighting(
        message=(
            f"{first.file} uses the {first.string_abi} string ABI, torch {torch.version} the {torch.string_abi} one: "
            f"{len(symbols)} of its symbols are missing{more}."
        ),
        evidence=(
            Evidence(what="string ABI of torch", value=torch.string_abi),
            *missing_symbols(found),
        ),
        severity="warning" if are_optional(extension for extension, _ in found) else None,
        remedies=rebuilt(environment, [extension for extension, _ in found]),
    )


RULE = Rule(
    id="environment/extension-cxx11-abi-mismatch",
    title="CUDA extension and torch use different C++ string ABIs",
    layers=("environment", "attention"),
    severity="error",
    silent="",
    cause=(
        "The extension was compiled with one setting of _GLIBCXX_USE_CXX11_ABI and torch with the other, so that they "
        "name the same function differently. Linux wheels of torch changed over with 2.7 (2.6 already for CUDA 12.6, "
        "aarch64, ROCm and XPU), and wheels with a wrong label were published."
    ),
    remedies=REMEDIES,
    caution=(
        "A symbol without a string in its signature is a matter of torch releases. Weak symbols do not count, nor do "
        "those of c10::cuda where torch is a CPU-only build."
    ),
    sources=(
        "https://github.com/unslothai/unsloth/issues/2925",
        "https://github.com/pytorch/pytorch/issues/152790",
        "https://github.com/vllm-project/vllm/issues/13047",
    ),
    from_log=detect_log,
    from_environment=detect_in_environment,
)
