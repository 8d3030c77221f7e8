"""Releases that could be installed and what they require, from the table in the repository or from what is here."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec
from packaging.specifiers import SpecifierSet

from trueup.schema.environment import Environment

TABLE = Path(__file__).with_name("data") / "requirements.json"


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """One release of a package."""

    name: str
    """Normalised."""
    version: str
    requires: tuple[str, ...] = ()
    """`Requires-Dist` as it stands in the metadata, markers and extras included."""
    requires_python: str | None = None
    read: str = ""
    """Where that was read: `the table of 2026-11-29`, `the index`, `what is installed`."""


class Requirements(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    made: str
    by: str
    releases: tuple[Offer, ...]


@cache
def table() -> Requirements:
    """The table of this version of trueup, made by `scripts/requirement_table.py`."""
    return msgspec.json.decode(TABLE.read_bytes(), type=Requirements)


def known_offer(name: str, wanted: SpecifierSet, environment: Environment) -> Offer | None:
    """The newest release in the table that is wanted, else the one that is installed; None when nothing is known."""
    for release in table().releases:  # the newest of each name first
        if release.name == name and wanted.contains(release.version, prereleases=True):
            return msgspec.structs.replace(release, read=f"the table of {table().made}")
    package = environment.packages.get(name)
    if package is None or not wanted.contains(package.version, prereleases=True):
        return None
    return Offer(name=name, version=package.version, requires=package.requires, read="what is installed")
