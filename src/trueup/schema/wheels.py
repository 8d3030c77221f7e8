"""The answer of `trueup doctor --for PACKAGE`: the wheel that fits, why the others do not, and the ways there."""

from __future__ import annotations

from typing import Literal

import msgspec

Axis = Literal["python", "torch", "cuda", "abi", "platform", "glibc", "gpu", "broken"]
Verdict = Literal["fits", "moves", "no-wheel", "cannot-run-here", "unknown"]
WayKind = Literal["wheel", "index", "another-torch", "source", "torch", "hub", "elsewhere", "keep", "apart"]
Evidence = Literal["workflow", "reported"]


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """Why a wheel is not for this environment."""

    axis: Axis
    wheel: str
    """What the wheel is for."""
    here: str
    """What is here."""
    why: str
    """Both in one sentence."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A wheel that was considered."""

    file: str
    """Name of the file; for what lies on an index the requirement and its build: `xformers==0.0.34 (cu128)`."""
    url: str
    version: str
    evidence: Evidence = "workflow"
    """`workflow`: the matrix of the tag lists it; `reported`: attached later, known from public reports."""
    rejections: tuple[Rejection, ...] = ()
    cautions: tuple[str, ...] = ()
    """What could go wrong although nothing that is known speaks against it."""


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """One way to get there, the shortest first."""

    kind: WayKind
    title: str
    commands: dict[str, str] = {}
    """`pip`, `uv`, `conda`, `code` → the exact line."""
    moves: tuple[str, ...] = ()
    """What it changes besides: `torch 2.13.0 → 2.8.0`."""
    missing: tuple[str, ...] = ()
    """Prerequisites that are not here."""
    cost: str = ""
    minutes: tuple[int, int] | None = None
    """From, to: an estimate, never measured here; `cost` says from what."""
    sources: tuple[str, ...] = ()


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """An installed package that an installation would replace."""

    package: str
    installed: str
    wanted: str
    """What is asked for instead: `==2.11.0`."""
    because: str
    """Who asks: `vllm 0.31.0 requires torch==2.11.0`."""
    breaks: tuple[str, ...] = ()
    """Other installed packages that need the version that is here."""


class Resolution(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one package in one environment."""

    package: str
    asked: str
    """As it was asked: `flash-attn<2.8`."""
    verdict: Verdict
    summary: str
    here: dict[str, str] = {}
    """What decided, in the terms of the wheels: `python` → `cp312`."""
    chosen: Candidate | None = None
    ways: tuple[Way, ...] = ()
    moves: tuple[Move, ...] = ()
    """What an installation of the newest release that was asked for would replace, torch first."""
    candidates: tuple[Candidate, ...] = ()
    """All that were considered, those with the fewest reasons against them first."""
    superseded: int = 0
    """Older wheels of a combination for which a newer release has one; not listed."""
    installed: str | None = None
    """Version of the package that is there already."""
    notes: tuple[str, ...] = ()
    """What is not known, and how old the table is."""
    sources: tuple[str, ...] = ()
