"""Ranks write the same compile cache at the same time."""

from __future__ import annotations

import re

from trueup.rules.definition import Rule, Sighting
from trueup.rules.environment_facts import processes, said, torch_version
from trueup.rules.log_facts import Mention, mention, mentions, passes
from trueup.schema.environment import Environment
from trueup.schema.finding import Confidence, Evidence, Remedy
from trueup.schema.log import Log

TEMPORARY = r"(?:No such file or directory|FileNotFoundError)[^\n]*\.tmp[._]?(?:pid_)?\d[\w.-]*|[./]tmp\.pid_"
CACHE = (
    r"torchinductor|\.triton/cache|/triton/\w|(?i:triton_?cache)|torch_compile_cache|unsloth_compiled_cache|fxgraph"
    r"|/triton_(?:poi|red|per|tem|mm)_fused\w*\.(?:ttir|ttgir|llir|ptx|cubin|hsaco|json)"
)
MISSING = (
    r"(?:FileNotFoundError|No such file or directory|Stale file handle|Text file busy|Device or resource busy"
    rf"|Directory not empty)[^\n]*(?:{CACHE})"
)
"""Triton removes its temporary folder after the file was renamed; file systems of several machines refuse that:
https://github.com/triton-lang/triton/issues/11512"""
HALF_WRITTEN = (
    r"JSONDecodeError|Expecting value: line \d|Extra data: line|EOFError: Ran out of input|pickle data was truncated"
    r"|UnpicklingError|file too short|invalid ELF header|SyntaxError"
)
COMPILES = r"torch\.compile|torch/_inductor|_inductor|triton|autotun\w+|unsloth_compiled_cache|torch_compile_cache"
RANKS = r"\brank ?\d|local_rank|torchrun|\bRay\b|ray::|multi-?node|world_size"


def detect_log(log: Log) -> Sighting | None:
    """A temporary or half-written file of a cache of compiled code."""
    temporary = mention(log, TEMPORARY)
    named = temporary is not None and "tmp.pid_" in temporary.found.group()  # as Triton does
    if temporary is not None and (named or mention(log, CACHE) is not None):
        return _sighting(log, temporary, "a temporary file of the cache was gone or in use", "established")
    missing = mention(log, MISSING)
    if missing is not None:
        return _sighting(
            log, missing, "a file of the cache was gone or in use", "likely" if _several(log) else "possible"
        )
    for half in mentions(log, HALF_WRITTEN):
        inside = passes(half.failure, "torch/_inductor/", "triton/", "unsloth_compiled_cache/", "torch_compile_cache/")
        if inside is not None or mention_in(half, COMPILES):
            return _sighting(
                log,
                half,
                "a file of the cache was read half written",
                "likely" if inside else "possible",
                SHARED if _several(log) else LEFT,
            )
    return None


def _several(log: Log) -> bool:
    """True when the log is of several processes, by ranks, world size or word."""
    return max(log.ranks, default=0) > 0 or (log.world_size or 0) > 1 or mention(log, RANKS) is not None


def mention_in(seen: Mention, expression: str) -> bool:
    """True when the same failure says this too."""
    return re.search(expression, seen.part.said) is not None


SHARED = "several processes share one cache folder"
LEFT = "another process writes to that folder, or a killed run or a full disk left the file so; delete it"
"""A file that an ended run left half written fails every later run, also one of a single process."""


def _sighting(log: Log, seen: Mention, what: str, confidence: Confidence, why: str = SHARED) -> Sighting:
    return Sighting(
        message=f"While code was compiled {what}: {why}.",
        evidence=(seen.evidence(log),),
        confidence=confidence,
        failure=seen.failure,
    )


VARIABLES = {"inductor cache": "TORCHINDUCTOR_CACHE_DIR", "triton cache": "TRITON_CACHE_DIR"}


def detect_in_environment(environment: Environment) -> Sighting | None:
    shared = [name for name in VARIABLES if environment.folders.get(name, {}).get("network")]
    if torch_version(environment) is None or not shared:
        return None
    several = processes(environment)
    folder = environment.folders[shared[0]]
    return Sighting(
        message=(
            f"The {shared[0]} {folder.get('path')} lies on {folder.get('filesystem')}, "
            "where all ranks and machines write to it."
        ),
        evidence=(
            *(
                Evidence(
                    what=f"file system of the {name}",
                    value=environment.folders[name].get("filesystem"),
                    at=environment.folders[name].get("path"),
                )
                for name in shared
            ),
            *((said(several, "processes"),) if several else ()),
        ),
        confidence="possible",
        severity="warning" if several else "note",
        remedies=tuple(
            Remedy(
                id=f"local-{name.replace(' ', '-')}",
                kind="env-var",
                automatic=False,
                how=f"export {VARIABLES[name]}=/tmp/{name.replace(' ', '_')}_$USER on every machine",
            )
            for name in shared
        ),
    )


RULE = Rule(
    id="compile/cache-race-between-ranks",
    title="Ranks race on a shared compile cache directory",
    layers=("compile", "launcher", "trainer"),
    severity="error",
    silent="",
    cause=(
        "All ranks write the same cache folder of Inductor, Triton or a library that generates code, on network "
        "storage or "
        "without an atomic rename."
    ),
    remedies=(
        Remedy(
            id="cache-folder-per-rank",
            kind="in-process",
            automatic=True,
            how=(
                "TORCHINDUCTOR_CACHE_DIR=/tmp/inductor-$LOCAL_RANK TRITON_CACHE_DIR=/tmp/triton-$LOCAL_RANK on "
                "local disk"
            ),
        ),
        Remedy(
            id="first-rank-compiles",
            kind="code",
            automatic=False,
            how="one step on rank 0, then torch.distributed.barrier(), then the other ranks",
        ),
    ),
    caution="In a job of one process the same text means a killed earlier run, or a full or unwritable disk.",
    sources=("https://github.com/pytorch/pytorch/issues/134384", "https://github.com/pytorch/pytorch/issues/153791"),
    from_log=detect_log,
    from_environment=detect_in_environment,
)
