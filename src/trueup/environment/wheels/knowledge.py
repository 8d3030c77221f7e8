"""What is known of a package beside its matrix: `data/packages.toml`, typed."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

FACTS = Path(__file__).with_name("data") / "packages.toml"

Kind = Literal["released", "pinned", "source", "pure", "bundled"]
"""Wheels attached to releases; one torch a release, on torch's own index; no wheels upstream; one wheel for all that is
compiled on first use; one wheel that holds a library for each CUDA."""


class UnknownPackage(LookupError):
    """No table for this package."""


class BuiltLike(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    torch: str
    cuda: str
    image: str
    build: str


class Added(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A wheel that was attached to a release by hand."""

    tag: str
    file: str
    like: BuiltLike
    sources: tuple[str, ...]


class Glibc(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The newest symbol version of glibc that wheels of a runner image ask for."""

    image: str
    asks: str
    sources: tuple[str, ...]


class Build(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to build it from source."""

    nvcc: str
    command: str
    estimate: str
    sources: tuple[str, ...]
    variables: dict[str, str] = {}
    blackwell_nvcc: str | None = None
    architectures: str | None = None
    """Environment variable that limits the GPU code."""
    codes: tuple[int, ...] = ()
    """Values it knows; empty where the list in `setup.py` is fixed."""
    memory_per_job_gib: int | None = None
    job_minutes: tuple[int, int] | None = None
    """Minutes of one job for one GPU generation, from and to; None when no report was read."""
    cxx20_from_torch: str | None = None
    """First torch whose headers its released sources cannot be compiled with."""
    cxx20_source: str | None = None
    cxx20_sources: tuple[str, ...] = ()


class Index(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Wheels on torch's own index."""

    name: str
    builds: tuple[str, ...]
    torch: str
    sources: tuple[str, ...]


class Hub(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    repository: str
    sources: tuple[str, ...]


class Known(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All facts of one package."""

    title: str
    aliases: tuple[str, ...]
    kind: Kind
    distribution: str
    seen: str
    unverified: tuple[str, ...]
    sources: tuple[str, ...]
    added: tuple[Added, ...] = ()
    glibc: tuple[Glibc, ...] = ()
    build: Build | None = None
    index: Index | None = None
    hub: Hub | None = None
    version: str | None = None
    capabilities: tuple[int, ...] = ()
    """Major compute capabilities it runs on, where no matrix of GPU code tells."""
    capability_words: str = ""
    no_backward: tuple[int, ...] = ()
    """Major compute capabilities on which it cannot train."""
    requires_python: str | None = None
    requires: tuple[str, ...] = ()
    cuda13_extra: str | None = None


@cache
def packages() -> dict[str, Known]:
    """All packages that `--for` knows."""
    return msgspec.toml.decode(FACTS.read_bytes(), type=dict[str, Known])


def named(name: str) -> tuple[str, Known]:
    """The package of this name or alias; UnknownPackage names those there are."""
    wanted = re.sub(r"[-_.]+", "-", name.strip()).lower()
    for package, known in packages().items():
        if wanted == package or wanted in known.aliases:
            return package, known
    raise UnknownPackage(f"no table of wheels for {name}; there is one for {', '.join(packages())}")
