"""Installed distributions, from the metadata that installers leave beside them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from trueup.environment.byte_ranges import head_of
from trueup.environment.host import names_in, text_of, without_credentials
from trueup.schema.environment import Package

LONGEST_METADATA = 1 << 18
"""Read of a METADATA file; the headers come first and the description, which may be a whole manual, is of no use."""
FOR_AN_EXTRA = re.compile(rb";.*\bextra\b")
FOLDER_NAME = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*?)-(?P<version>\d[^-]*)(?:-.*)?\.(?:dist|egg)-info")


def normalised(name: str) -> str:
    """The name by which a package is looked up: lower case, dashes.

    https://packaging.python.org/en/latest/specifications/name-normalization/
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def installed(folders: Iterable[Path]) -> tuple[dict[str, Package], tuple[str, ...]]:
    """Name → package, and what is not as an installer would leave it.

    Of a name that is installed twice the first on the search path counts, as it does for Python.
    """
    packages: dict[str, Package] = {}
    notes: list[str] = []
    for folder in folders:
        for name in names_in(folder):
            if name.startswith("~") and name.endswith(".dist-info"):
                notes.append(f"{folder / name}: left behind by an interrupted pip; delete it")
            elif name.endswith((".dist-info", ".egg-info")):
                package = _package(folder / name, notes)
                if package is not None:
                    _add(packages, package, notes)
    return dict(sorted(packages.items())), tuple(notes)


def _add(packages: dict[str, Package], package: Package, notes: list[str]) -> None:
    first = packages.setdefault(package.name, package)
    if first.version == package.version:
        return
    if first.location == package.location:
        notes.append(
            f"{package.name} is recorded twice in {package.location}: {first.version} and {package.version}; "
            "which of them Python reports is chance"
        )
    else:
        notes.append(
            f"{package.name} {first.version} in {first.location} hides {package.version} in {package.location}"
        )


def _package(info: Path, notes: list[str]) -> Package | None:
    """One distribution; None for a folder that tells neither name nor version."""
    head = _headers(info)
    name, version, requires = _read(head or b"")
    if head is not None and (broken := _not_utf8(head)):
        notes.append(f"{info}: METADATA holds bytes that are no UTF-8, from byte {broken}")
    if not name or not version:
        named = FOLDER_NAME.fullmatch(info.name)
        if named is None:
            notes.append(f"{info}: tells neither name nor version of what is installed")
            return None
        notes.append(f"{info}: METADATA is {'missing or unreadable' if head is None else 'without name and version'}")
        name, version = name or named["name"], version or named["version"]
    if info.suffix == ".egg-info" and not requires:
        requires = _egg_requires(info)
    return Package(
        name=normalised(name),
        version=version,
        requires=tuple(requires),
        location=str(info.parent),
        installer=(_small(info / "INSTALLER") or "").strip() or None,
        origin=_origin(info),
    )


def _headers(info: Path) -> bytes | None:
    """Everything before the description. An `.egg-info` may be the file itself."""
    for name in ("METADATA", "PKG-INFO", ""):
        try:
            text = head_of(info / name, LONGEST_METADATA)
        except OSError:
            continue
        return text.replace(b"\r\n", b"\n").partition(b"\n\n")[0]
    return None


def _read(head: bytes) -> tuple[str, str, list[str]]:
    name = version = ""
    requires = []
    for line in head.split(b"\n"):
        if line.startswith(b"Requires-Dist:"):
            if not FOR_AN_EXTRA.search(line):
                requires.append(line[14:].decode("utf-8", "replace").strip())
        elif line.startswith(b"Name:"):
            name = line[5:].decode("utf-8", "replace").strip()
        elif line.startswith(b"Version:"):
            version = line[8:].decode("utf-8", "replace").strip()
    return name, version, requires


def _not_utf8(text: bytes) -> int | None:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start
    return None


def _egg_requires(info: Path) -> list[str]:
    """The unconditional part of setuptools' `requires.txt`, which is what stands before the first `[section]`."""
    lines = []
    for line in (text_of(info / "requires.txt") or "").splitlines():
        if line.startswith("["):
            break
        if line.strip():
            lines.append(line.strip())
    return lines


def _origin(info: Path) -> str | None:
    """Where it came from when not from an index. https://packaging.python.org/en/latest/specifications/direct-url/"""
    text = _small(info / "direct_url.json")
    if text is None:
        return None
    try:
        said: Any = msgspec.json.decode(text)
        url = without_credentials(str(said["url"]))
    except (msgspec.DecodeError, KeyError, TypeError):
        return None
    if "vcs_info" in said and isinstance(said["vcs_info"], dict):
        vcs = said["vcs_info"]
        return f"{vcs.get('vcs', 'vcs')}+{url}@{vcs.get('commit_id', '')}"
    if url.startswith("file://") and "archive_info" in said:
        return os.path.basename(url)
    editable = isinstance(said.get("dir_info"), dict) and said["dir_info"].get("editable")
    return f"editable {url.removeprefix('file://')}" if editable else url.removeprefix("file://")


def _small(path: Path) -> str | None:
    """A file that mostly is not there."""
    try:
        return head_of(path, 1 << 16).decode("utf-8", "replace")
    except OSError:
        return None
