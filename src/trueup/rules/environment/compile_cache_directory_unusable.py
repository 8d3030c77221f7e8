"""The cache folder of Inductor or Triton cannot be written or executed from."""

from __future__ import annotations

from typing import Any

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import torch_version
from trueup.rules.log_facts import Mention, mention, mentions, passes
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log

REFUSED = (
    r"(?:Permission denied|Read-only file system|No space left on device|Disk quota exceeded|Access is "
    r"denied[^:\n]*):? "
    r"(?P<path>\S*(?:torchinductor|[/\\]\.triton|[/\\]triton[/\\]|triton_cache|torch_compile|inductor_cache|[/\\]fxgraph)\S*)"
)
REFUSED_SOMEWHERE = (
    r"(?:PermissionError|OSError): [^\n]*(?:Permission denied|Read-only file system|No space left on device)"
)
NO_USER = r"getpwuid\(\): uid not found"
UNMAPPABLE = r"(?P<file>\S+\.so[\w.]*): failed to map segment from shared object(?!: Cannot allocate memory)"
NO_FOLDER = r"(?:FileNotFoundError|NotADirectoryError|FileExistsError|PermissionError|OSError): \[Errno \d+\] [^\n]*"
"""What making the folder raises where its path leads through a file, /proc or /sys."""
MAKES_FOLDER = "torch/_inductor/runtime/cache_dir_utils.py"
COMPILERS = ("torch/_inductor/", "triton/runtime/", "triton/compiler/", "torch/_dynamo/", "torch/_functorch/")


def detect_log(log: Log) -> Sighting | None:
    return refused(log) or without_user(log) or unmappable(log)


def refused(log: Log) -> Sighting | None:
    """An error of the file system below a cache folder, or raised inside the compilers."""
    seen = mention(log, REFUSED)
    if seen is None:
        seen = inside(log, REFUSED_SOMEWHERE, *COMPILERS) or inside(log, NO_FOLDER, MAKES_FOLDER)
    if seen is None:
        return None
    return Sighting(
        message="The compiler could not write to its cache folder.",
        evidence=(seen.evidence(log),),
        failure=seen.failure,
    )


def inside(log: Log, expression: str, *files: str) -> Mention | None:
    """The first such text of a failure that passes one of these files."""
    return next((seen for seen in mentions(log, expression) if passes(seen.failure, *files)), None)


def without_user(log: Log) -> Sighting | None:
    """Inductor names its folder after the user; a container with any uid has none."""
    seen = mention(log, NO_USER)
    if seen is None:
        return None
    inside = passes(seen.failure, *COMPILERS)
    return Sighting(
        message="The user id has no name, and Inductor names its cache folder after the user.",
        evidence=(seen.evidence(log),),
        confidence="established" if inside else "possible",
        failure=seen.failure,
    )


def unmappable(log: Log) -> Sighting | None:
    seen = mention(log, UNMAPPABLE)
    if seen is None:
        return None
    return Sighting(
        message="A compiled library cannot be loaded from its folder, which is mounted noexec.",
        evidence=(seen.evidence(log), Evidence(what="library", value=seen.found["file"])),
        failure=seen.failure,
    )


VARIABLES = {"inductor cache": "TORCHINDUCTOR_CACHE_DIR", "triton cache": "TRITON_CACHE_DIR"}
LEAST_FREE = 100 * 1000**2
"""Bytes; one compiled model of a few blocks takes tens of megabytes."""


def detect_in_environment(environment: Environment) -> Sighting | None:
    if torch_version(environment) is None:
        return None
    has_triton = any(name.endswith("triton") for name in environment.packages)
    purposes = ["inductor cache", *(["triton cache"] if has_triton else [])]
    found = {name: reason for name in purposes if (reason := _trouble(environment.folders.get(name, {})))}
    if not found:
        return None
    name, reason = next(iter(found.items()))
    folder = environment.folders[name]
    return Sighting(
        message=f"The {name} {folder.get('path')} {reason}.",
        evidence=tuple(
            Evidence(
                what=f"{each} (set by {environment.folders[each].get('set_by')})",
                value=why,
                at=environment.folders[each].get("path"),
            )
            for each, why in found.items()
        ),
        severity="warning",
        remedies=tuple(
            Remedy(
                id=VARIABLES[each].lower().replace("_", "-"),
                kind="env-var",
                automatic=False,
                how=f"export {VARIABLES[each]}={_elsewhere(environment, each)}",
            )
            for each in found
        ),
    )


def _trouble(folder: dict[str, Any]) -> str | None:
    if folder.get("responds") is False:
        return f"lies on a {folder.get('filesystem')} file system that does not answer"
    if folder.get("read_only"):
        return "lies on a file system that is mounted read-only"
    if folder.get("writable") is False:
        return (
            "is not writable for this user"
            if folder.get("exists")
            else f"cannot be made: {folder.get('nearest')} is not writable"
        )
    if folder.get("noexec"):
        return "lies on a file system mounted noexec, from which no compiled code is loaded"
    free = folder.get("free_bytes")
    if isinstance(free, int) and free < LEAST_FREE:
        return f"has {free / 1e6:.0f} MB left"
    return None


def _elsewhere(environment: Environment, purpose: str) -> str:
    """A folder that would do, among those that were looked at."""
    for name in ("tmp", "hugging face cache", "torch extensions"):
        folder = environment.folders.get(name, {})
        if folder.get("path") and folder.get("writable") and _trouble(folder) is None:
            return f"{folder['path']}/{purpose.replace(' ', '_')}"
    return "a folder on a local disk that is writable and mounted with exec"


RULE = Rule(
    id="environment/compile-cache-directory-unusable",
    title="Compile cache directory is not writable or not executable",
    layers=("environment", "compile"),
    severity="error",
    silent="",
    cause=(
        "Inductor writes to /tmp/torchinductor_USER and Triton to ~/.triton, and both load what they built from "
        "there. A /tmp mounted noexec, a user id without a name or home, a full disk or a read-only home makes that "
        "impossible."
    ),
    remedies=(
        Remedy(
            id="compile-cache-folder",
            kind="env-var",
            automatic=True,
            how="export TORCHINDUCTOR_CACHE_DIR=/path/inductor TRITON_CACHE_DIR=/path/triton, a local folder that can "
            "be written and executed from, one for each rank where it is shared",
        ),
        Remedy(
            id="name-the-user",
            kind="env-var",
            automatic=False,
            how="export USER=trainer HOME=/path, where the container's user id has no name",
        ),
    ),
    caution="Permission errors below other folders (data sets, hub cache) are another matter.",
    sources=("https://github.com/pytorch/pytorch/issues/91005",),
    log=(
        LogText(
            text="failed to map segment from shared object",
            versions="any, a noexec mount",
            not_with=("failed to map segment from shared object: Cannot allocate memory",),
        ),
        LogText(
            text="a filesystem mounted with noexec, so the dynamic loader cannot map",
            versions="torch 2.13 or newer",
        ),
    ),
    from_log=detect_log,
    from_environment=detect_in_environment,
)
