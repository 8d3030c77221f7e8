"""The cache folder of Inductor or Triton cannot be written or executed from."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.log_facts import mention, passes
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
COMPILERS = ("torch/_inductor/", "triton/runtime/", "triton/compiler/", "torch/_dynamo/", "torch/_functorch/")


def detect_log(log: Log) -> Sighting | None:
    return refused(log) or without_user(log) or unmappable(log)


def refused(log: Log) -> Sighting | None:
    """An error of the file system below a cache folder, or raised inside the compilers."""
    seen = mention(log, REFUSED)
    if seen is None:
        seen = mention(log, REFUSED_SOMEWHERE)
        if seen is None or not passes(seen.failure, *COMPILERS):
            return None
    return Sighting(
        message="The compiler could not write to its cache folder.",
        evidence=(seen.evidence(log),),
        failure=seen.failure,
    )


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


RULE = Rule(
    id="environment/compile-cache-directory-unusable",
    title="Compile cache directory is not writable or not executable",
    layers=("environment", "compile"),
    severity="error",
    silent="",
    cause=(
        "Inductor writes to /tmp/torchinductor_USER and Triton to ~/.triton, and both load what they built from "
        "there. A /tmp "
        "mounted noexec, a user id without a name or home, a full disk or a read-only home makes that impossible."
    ),
    remedies=(
        Remedy(
            id="compile-cache-folder",
            kind="env-var",
            automatic=False,
            how="export TORCHINDUCTOR_CACHE_DIR=/path/inductor TRITON_CACHE_DIR=/path/triton, a local folder that can "
            "be "
            "written and executed from, one for each rank where it is shared",
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
)
