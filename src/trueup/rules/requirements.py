"""What installed packages require of each other, against what is installed: a `pip check` of the training stack."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from trueup.environment.markers import markers
from trueup.schema.environment import Environment, Package

WATCHED = frozenset((
    "accelerate", "apex", "bitsandbytes", "causal-conv1d", "datasets", "deepspeed", "fa3-fwd", "flash-attn",
    "flash-attn-3", "flash-attn-4", "flashinfer-python", "huggingface-hub", "liger-kernel", "lightning",
    "mamba-ssm", "megatron-core", "numpy", "peft", "pytorch-lightning", "ray", "safetensors", "sgl-kernel",
    "sglang", "tokenizers", "torch", "torchao", "torchaudio", "torchdata", "torchmetrics", "torchtitan",
    "torchvision", "transformer-engine", "transformers", "triton", "trl", "unsloth", "verl", "vllm", "xformers",
))  # fmt: skip
"""A requirement between two other packages is left to `pip check`."""

OF_NVIDIA = "nvidia-"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
REQUIREMENT = re.compile(NAME.pattern + r"\s*(?:\[[^\]]*\])?(?P<specifier>[^;@]*)(?:;(?P<marker>.*))?")
"""https://packaging.python.org/en/latest/specifications/dependency-specifiers/, but for those that name a URL."""
COMPARISON = re.compile(r"""\s*(?P<name>\w+)\s*(?P<sign>[<>=!]=|[<>])\s*["'](?P<value>[^"']*)["']\s*""")


class Unmet(msgspec.Struct, frozen=True):
    """A requirement that the environment does not meet."""

    package: Package
    """The one that requires."""
    name: str
    """Normalised name of what is required."""
    requirement: str
    """`torch==2.9.0`, without markers."""
    installed: str | None
    """The version that is there, None when the package is missing."""


def unmet(environment: Environment) -> Iterator[Unmet]:
    """Every requirement that does not hold and has a package of the stack at one end."""
    for package in environment.packages.values():
        for line in package.requires:
            found = NAME.match(line)
            if found is None:
                continue
            name = re.sub(r"[-_.]+", "-", found.group()).lower()
            if name in WATCHED or name.startswith(OF_NVIDIA) or package.name in WATCHED:
                yield from _judged(environment, package, name, line)


def _judged(environment: Environment, package: Package, name: str, line: str) -> Iterator[Unmet]:
    found = REQUIREMENT.fullmatch(line)
    if found is None or not applies_here(found["marker"], environment):
        return
    try:
        specifier = SpecifierSet(found["specifier"].strip().strip("()"))
        installed = environment.packages.get(name)
        if installed is None:
            yield Unmet(package, name, f"{name}{specifier}", None)
        elif not specifier.contains(Version(installed.version), prereleases=True):
            yield Unmet(package, name, f"{name}{specifier}", installed.version)
    except (InvalidSpecifier, InvalidVersion):
        return


def applies_here(marker: str | None, environment: Environment) -> bool:
    """Whether a requirement counts here. Most markers are plain comparisons; the others take a parser to be loaded."""
    if not marker:
        return True
    known = markers(environment)
    groups = [[COMPARISON.fullmatch(part) for part in group.split(" and ")] for group in marker.split(" or ")]
    if all(part is not None and part["name"] in known for group in groups for part in group):
        return any(all(part is None or _holds(known, part) for part in group) for group in groups)
    from packaging.markers import InvalidMarker, Marker

    try:
        return Marker(marker).evaluate(known)
    except InvalidMarker:
        return False


def _holds(known: Mapping[str, str], comparison: re.Match[str]) -> bool:
    """Versions are compared as versions, as the specification of markers says; other values are texts."""
    value, sign, wanted = known[comparison["name"]], comparison["sign"], comparison["value"]
    try:
        return SpecifierSet(f"{sign}{wanted}").contains(Version(value), prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return (value == wanted) == (sign == "==")
