"""Where the compiled packages of an environment were built, as far as their metadata tell."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trueup.environment.host import names_in, text_of
from trueup.environment.packages import normalised
from trueup.schema.environment import Package

TAG = re.compile(r"^Tag:\s*(\S+)", re.MULTILINE)


def builds(names: Iterable[str | None], packages: dict[str, Package]) -> dict[str, dict[str, Any]]:
    """Package → `tag`, the first tag of its wheel, and `installed_at`, seconds since the epoch, each None if unknown.

    A wheel of an index is tagged `manylinux`; `linux_x86_64` is one that was built on a machine of this kind, or that
    somebody put on a site of his own. An installer writes RECORD last, at the time of the installation.
    """
    found = {}
    for name in dict.fromkeys(names):
        package = packages.get(name or "")
        info = None if package is None else _info(package)
        if package is not None and info is not None:
            tag = TAG.search(text_of(info / "WHEEL") or "")
            found[package.name] = {"tag": tag[1] if tag else None, "installed_at": _time(info / "RECORD")}
    return found


def _info(package: Package) -> Path | None:
    folder = Path(package.location)
    for name in names_in(folder):
        if name.endswith(".dist-info") and normalised(name.partition("-")[0]) == package.name:
            return folder / name
    return None


def _time(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None
