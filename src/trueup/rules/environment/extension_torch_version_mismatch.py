"""An extension was compiled for another release or build of torch."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import torch_version
from trueup.rules.expression import Expression
from trueup.rules.extension_facts import Claim, are_optional, broken_extensions, claims, missing_symbols, rebuilt
from trueup.rules.log_facts import mentions
from trueup.rules.symbols import UNDEFINED, distribution_of, for_package, missing_symbol
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log

LIBRARY = (
    r"lib(?:cudart|torch_cuda|c10_cuda|torch_cuda_cu|torch_cuda_cpp)\.so[\w.]*: cannot "
    r"open shared"
)
EXTENSIONS = Expression(
    r"flash_attn|flash-attn|xformers|apex|amp_C|transformer_engine|torchvision|torchaudio|torchtext|bitsandbytes|vllm"
    r"|sgl_kernel|causal_conv1d|selective_scan|mamba|deepspeed|torch_(?:scatter|sparse|cluster)|detectron2|mmcv|exllama"
    r"|auto_gptq|awq|fused_dense|rotary_emb|grouped_gemm|deep_ep|deep_gemm|natten|spconv|pytorch3d"
)


def detect_log(log: Log) -> Sighting | None:
    return by_symbol(log) or by_library(log)


def by_symbol(log: Log) -> Sighting | None:
    """A function of torch that the installed one does not have in this form; strings are another rule's matter."""
    for seen in mentions(log, UNDEFINED):
        missing = missing_symbol(seen.part.said[: seen.found.end()])
        if missing is None or not missing.of_torch or missing.takes_string:
            continue
        name = missing.distribution or missing.file or "The extension"
        built = f"for {missing.built_for}" if missing.built_for else "for another torch than the installed one"
        return Sighting(
            message=f"{name} was compiled {built}.",
            evidence=(seen.evidence(log), Evidence(what="symbol that torch does not export", value=missing.symbol)),
            remedies=for_package(REMEDIES, missing.distribution),
            failure=seen.failure,
        )
    return None


def by_library(log: Log) -> Sighting | None:
    """A library that only another torch, or another CUDA than torch's own, would bring."""
    for seen in mentions(log, LIBRARY):
        frames = (*seen.failure.frames, *seen.part.failure.frames)
        asking = next((each.file for each in reversed(frames) if EXTENSIONS.search(each.file)), None)
        own = any("/torch/__init__.py" in each.file for each in frames)
        if asking is None and not EXTENSIONS.search(seen.part.said) and ("cudart" in seen.found.group() or own):
            continue
        return Sighting(
            message=f"{distribution_of(asking or '') or 'An extension'} asks for a library of another build of torch.",
            evidence=(seen.evidence(log),),
            confidence="likely",
            remedies=for_package(REMEDIES, distribution_of(asking or "")),
            failure=seen.failure,
        )
    return None


REMEDIES = (
    Remedy(
        id="rebuild-extension",
        kind="install",
        automatic=False,
        how="pip install --force-reinstall --no-deps --no-cache-dir --no-build-isolation PACKAGE, or a wheel of "
        "PACKAGE whose name has the major.minor of the installed torch",
    ),
    Remedy(
        id="pin-torch",
        kind="install",
        automatic=False,
        how="python -c \"import torch; print('torch==' + torch.__version__)\" > constraints.txt, then every further "
        "pip install with -c constraints.txt; torch first, extensions after it",
    ),
)


def detect_in_environment(environment: Environment) -> Sighting | None:
    torch = environment.torch
    if torch is None:
        return None
    other_abi = {"cxx11": "old", "old": "cxx11"}.get(torch.string_abi or "")
    found = [
        (extension, symbols)
        for extension, symbols in broken_extensions(environment)
        if extension.string_abi is None or extension.string_abi != other_abi
    ]
    if not found:
        return _by_name(environment)
    first, symbols = found[0]
    built = f", which fits torch {first.built_for_torch}," if first.built_for_torch else ""
    more = f" {len(found) - 1} more files are alike." if len(found) > 1 else ""
    return Sighting(
        message=f"{first.file}{built} misses {len(symbols)} symbols in torch {torch.version}.{more}",
        evidence=(
            Evidence(what="torch installed", value=torch.version),
            *missing_symbols(found),
        ),
        severity="warning" if are_optional(extension for extension, _ in found) else None,
        remedies=rebuilt(environment, [extension for extension, _ in found]),
    )


def _by_name(environment: Environment) -> Sighting | None:
    """By the name of the wheel, which is a claim of its publisher: only where no compiled file could be checked."""
    torch = torch_version(environment)
    checked = {extension.package for extension in environment.extensions}
    wrong: list[Claim] = [
        claim
        for claim in claims(environment)
        if torch is not None and claim.torch != f"{torch.major}.{torch.minor}" and claim.package.name not in checked
    ]
    if not wrong:
        return None
    claim = wrong[0]
    return Sighting(
        message=(
            f"{claim.package.name} {claim.package.version} was published for torch {claim.torch}; torch {torch} is "
            "installed."
        ),
        evidence=tuple(Evidence(what=f"wheel of {each.package.name}", value=each.text) for each in wrong),
        confidence="likely",
        severity="warning",
    )


RULE = Rule(
    id="environment/extension-torch-version-mismatch",
    title="CUDA extension compiled for a different torch release",
    layers=("environment", "attention"),
    severity="error",
    silent="",
    cause=(
        "The C++ interface of torch changes between minor releases, and an extension that was compiled for one of "
        "them does not load in another. A CPU-only torch lacks all functions of c10::cuda."
    ),
    remedies=REMEDIES,
    caution=(
        "A std::string in the signature is the ABI, not the release. Where pip moved torch after the extension was "
        "installed, that is the root."
    ),
    sources=("https://github.com/EleutherAI/gpt-neox/issues/1079",),
    log=(
        LogText(
            text="operator torchvision::nms does not exist",
            versions="torchvision whose extension did not load",
        ),
        LogText(
            text="xFormers was built for:",
            versions="xformers, a warning with both versions",
        ),
        LogText(
            text="PyTorch and torchvision were compiled with different CUDA",
            versions="torchvision, older ones write major versions",
        ),
        LogText(
            text="PyTorch and torchaudio were compiled with different CUDA",
            versions="torchaudio, older ones write versions",
        ),
        LogText(
            text="flash_attn_2_cuda<tag>: undefined symbol",
            strength="supporting",
            versions="any; the symbol decides",
            not_with=("__cxx11",),
        ),
        LogText(
            text="DLL load failed while importing <extension>: The specified procedure could not be found",
            strength="supporting",
            versions="Windows, which does not name the symbol",
        ),
    ),
    from_log=detect_log,
    from_environment=detect_in_environment,
)
