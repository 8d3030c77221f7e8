"""The shared objects of an environment, and the package that each belongs to."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlparse

from trueup.environment.host import names_in
from trueup.environment.packages import FOLDER_NAME, normalised

SHARED_OBJECT = re.compile(r"\.so(?:\.\d+)*$")
LARGEST_RECORD = 1 << 26
MOST_FILES = 200_000
"""Where a folder is walked: no package has more; a link to a disk of data sets may."""
LEFT_OUT = {".git", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".nox", ".mypy_cache"}


class SharedObject(NamedTuple):
    path: Path
    file: str
    """As people know it: relative to the folder of packages it was found through, else the whole path."""
    package: str | None


def shared_objects(folders: Iterable[Path]) -> Iterator[SharedObject]:
    """Every shared object under the folders of packages: by the lists that installers leave, which name their package
    and need no walk, then by a walk of what no list covers and of the source of editable installs."""
    for folder in folders:
        covered: set[str] = set()
        for name in names_in(folder):
            if name.endswith(".dist-info"):
                yield from recorded(folder, name, covered)
        for name in names_in(folder):
            if name in covered or name.endswith((".dist-info", ".egg-info")):
                continue
            path = folder / name
            if SHARED_OBJECT.search(name):
                yield SharedObject(path, name, None)
            elif path.is_dir() and name not in LEFT_OUT:
                package = egg_name(name)
                yield from (SharedObject(found, str(found.relative_to(folder)), package) for found in walked(path))


def recorded(folder: Path, information: str, covered: set[str]) -> Iterator[SharedObject]:
    """What `RECORD` lists, and the source folder that `direct_url.json` names for an editable install."""
    match = FOLDER_NAME.fullmatch(information)
    package = normalised(match["name"]) if match else None
    listed = bytes_of(folder / information / "RECORD")
    tops = {line.split(b"/", 1)[0] for line in listed.splitlines()}
    covered.update(os.fsdecode(top.split(b",", 1)[0].lstrip(b'"')) for top in tops)
    for file in listed_objects(listed):
        yield SharedObject(folder / file, file, package)
    source = editable_source(folder / information / "direct_url.json")
    if source is not None:
        yield from (SharedObject(found, str(found), package) for found in walked(source))


def listed_objects(record: bytes) -> Iterator[str]:
    """File names out of the lines `name,hash,size`; the few that matter are searched for in the text as a whole."""
    end = 0
    while (at := record.find(b".so", end)) >= 0:
        start = record.rfind(b"\n", 0, at) + 1
        end = record.find(b"\n", at)
        end = len(record) if end < 0 else end
        line = record[start:end]
        name = line[1:].split(b'",', 1)[0] if line.startswith(b'"') else line.split(b",", 1)[0]
        if SHARED_OBJECT.search(file := os.fsdecode(name)):
            yield file


def bytes_of(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(LARGEST_RECORD)
    except OSError:
        return b""


def editable_source(file: Path) -> Path | None:
    try:
        value = json.loads(bytes_of(file))
        if value.get("dir_info", {}).get("editable"):
            return Path(unquote(urlparse(value["url"]).path))
    except (ValueError, AttributeError, KeyError, TypeError):
        pass
    return None


def egg_name(folder: str) -> str | None:
    return normalised(folder.split("-")[0]) if folder.endswith(".egg") else None


def walked(folder: Path) -> Iterator[Path]:
    """Shared objects under a folder; links to folders are not followed."""
    seen = 0
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT)
        seen += len(files)
        if seen > MOST_FILES:
            return
        yield from (Path(place, name) for name in sorted(files) if SHARED_OBJECT.search(name))
