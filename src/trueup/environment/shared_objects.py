"""The shared objects of an environment, and the package that each belongs to."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from trueup.environment.byte_ranges import head_of
from trueup.environment.cache import BinaryCache, Identity, Listing
from trueup.environment.host import names_in
from trueup.environment.packages import FOLDER_NAME, normalised

SHARED_OBJECT = re.compile(r"\.so(?:\.\d+)*$")
FIRST_PART = re.compile(rb'^"?([^/,\r\n]+)(?:/[^\n]*\n(?:\1/[^\n]*\n)*)?', re.MULTILINE)
"""Of the path at the start of a line of a RECORD, with the lines below it that start in the same folder."""
LARGEST_RECORD = 1 << 26
MOST_FILES = 200_000
"""Where a folder is walked: no package has more; a link to a disk of data sets may."""
NO_SOURCE = {"build", "dist", "node_modules", "site-packages"}
"""Folders of a project that hold no modules which an editable install imports."""


class SharedObject(NamedTuple):
    path: Path
    file: str
    """As people know it: relative to the folder of packages it was found through, else the whole path."""
    package: str | None


def shared_objects(folders: Iterable[Path], cache: BinaryCache) -> Iterator[SharedObject]:
    """Every shared object under the folders of packages: by the lists that installers leave, which name their package
    and need no walk, then by a walk of what no list covers and of the source of editable installs."""
    for folder in folders:
        names = names_in(folder)
        covered: set[str] = set()
        for name in names:
            if name.endswith(".dist-info") and (listing := listed(folder / name, cache)) is not None:
                match = FOLDER_NAME.fullmatch(name)
                package = normalised(match["name"]) if match else None
                covered.update(listing.tops)
                yield from (SharedObject(folder / file, file, package) for file in listing.files)
                for found in walked(Path(listing.source), NO_SOURCE) if listing.source is not None else ():
                    yield SharedObject(found, decoded(os.fsencode(found)), package)
        for name in names:
            if name in covered or name == "__pycache__" or name.endswith((".dist-info", ".egg-info")):
                continue
            path = folder / name
            if SHARED_OBJECT.search(name):
                yield SharedObject(path, decoded(os.fsencode(name)), None)
            elif path.is_dir():
                package = normalised(name.split("-")[0]) if name.endswith(".egg") else None
                for found in walked(path):
                    yield SharedObject(found, decoded(os.fsencode(found.relative_to(folder))), package)


def listed(information: Path, cache: BinaryCache) -> Listing | None:
    """What `RECORD` lists, and the source folder that `direct_url.json` names for an editable install."""
    record = information / "RECORD"
    try:
        identity = Identity.of(record)
    except OSError:
        return None
    listing = cache.listing(record, identity)
    if listing is None:
        text = bytes_of(record)
        tops = set(FIRST_PART.findall(text))
        source = editable_source(information / "direct_url.json")
        listing = Listing(identity, tuple(map(decoded, tops)), tuple(listed_objects(text)), source)
        cache.put_listing(record, listing)
    return listing


def listed_objects(record: bytes) -> Iterator[str]:
    """File names out of the lines `name,hash,size`; the few that matter are searched for in the text as a whole."""
    end = 0
    while (at := record.find(b".so", end)) >= 0:
        start = record.rfind(b"\n", 0, at) + 1
        end = record.find(b"\n", at)
        end = len(record) if end < 0 else end
        line = record[start:end]
        name = line[1:].split(b'",', 1)[0] if line.startswith(b'"') else line.split(b",", 1)[0]
        if SHARED_OBJECT.search(file := decoded(name)):
            yield file


def decoded(name: bytes) -> str:
    """Names of files may be any bytes; what is shown and stored must be text."""
    return name.decode("utf-8", "replace")


def bytes_of(file: Path) -> bytes:
    try:
        return head_of(file, LARGEST_RECORD)
    except OSError:
        return b""


def editable_source(file: Path) -> str | None:
    from urllib.parse import unquote, urlsplit

    try:
        value = msgspec.json.decode(bytes_of(file))
        return unquote(urlsplit(value["url"]).path) if value["dir_info"].get("editable") else None
    except (msgspec.DecodeError, ValueError, AttributeError, KeyError, TypeError):
        return None


def walked(folder: Path, left_out: Collection[str] = ()) -> Iterator[Path]:
    """Shared objects under a folder. Links to folders are not followed; hidden folders, which Python cannot import
    from, and other environments inside it are passed over."""
    seen = 0
    for place, folders, files in os.walk(folder):
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")) and name not in left_out)
        seen += len(files)
        if seen > MOST_FILES:
            return
        yield from (Path(place, name) for name in sorted(files) if SHARED_OBJECT.search(name))
