"""Whether the compiled modules of an environment can be loaded into its torch, told without loading them.

For each shared object that asks for torch: are the libraries there that it needs, does something define each symbol
that it asks for, are the symbol versions of the C library there, which torch was it built for. A function whose meaning
changed under the same name is not seen: "nothing missing" is not "compatible".
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from trueup import __version__
from trueup.environment import elf
from trueup.environment.byte_ranges import Unreadable
from trueup.environment.cache import Binary, BinaryCache, Identity
from trueup.environment.fatbin import gpu_architectures
from trueup.environment.host import Host
from trueup.environment.ladder import TABLE
from trueup.environment.libraries import LOADER_CACHE, SYSTEM_FOLDERS, expanded
from trueup.environment.scope import TORCH_LIBRARY, Scope, torch_libraries
from trueup.environment.shared_objects import SharedObject, shared_objects
from trueup.environment.symbols import MARKS, of_torch
from trueup.schema.environment import Extension

NO_EXTENSIONS = re.compile(r"(?:torch|functorch|nvidia)/|[^/]+\.libs/")
"""Folders of torch itself, of the libraries of CUDA, and of those that wheels bring along."""


def extensions(
    folders: Sequence[Path],
    torch_folder: Path | None,
    *,
    executable: Path | None = None,
    host: Host | None = None,
    cache: BinaryCache | None = None,
) -> tuple[tuple[Extension, ...], tuple[str, ...]]:
    """The shared objects that ask for torch, and what could not be read.

    `folders` hold packages; `torch_folder` is that of the package torch, None when there is none; `executable` is the
    environment's Python.
    """
    host = host or Host()
    cache = cache or BinaryCache.of(host, folders[0] if folders else Path())
    found: dict[Path, tuple[SharedObject, Identity]] = {}
    asking: list[tuple[SharedObject, Binary]] = []
    notes: list[str] = []
    for each in shared_objects(folders, cache):
        try:
            found.setdefault(each.path, (each, Identity.of(each.path)))
        except OSError:
            continue  # listed and gone: a package that lacks files is found by its own absence
    for path, (each, identity) in found.items():
        if NO_EXTENSIONS.match(each.file):
            continue
        try:
            binary = cached(path, identity, cache)
        except Unreadable as problem:
            notes.append(f"{each.file} cannot be read: {problem}")
            continue
        if binary is not None:
            asking.append((each, binary))
            notes += (f"{each.file}: {note}" for note in binary.notes)
    state = state_of(
        [
            *(f"{path} {identity}" for path, (_, identity) in found.items()),
            *surroundings(host, torch_folder, executable),
        ],
        asking,
    )
    judged = cache.verdicts(state)
    if judged is None:
        scope = Scope(host, torch_folder, executable, list(found))
        judged = tuple(scope.judged(each, binary) for each, binary in asking)
        cache.save(state, judged)
    return judged, tuple(notes)


def cached(path: Path, identity: Identity, cache: BinaryCache) -> Binary | None:
    """What `path` says of itself if it asks for torch, None for any other file. Raises `Unreadable`."""
    entry = cache.get(path, identity)
    if entry is not None:
        return entry.binary
    binary = read(path)
    cache.put(path, identity, binary)
    return binary


def read(path: Path) -> Binary | None:
    """As `cached`, from the file."""
    file = elf.read(path)
    linked = any(map(TORCH_LIBRARY.match, file.needed))
    if not linked and not any(mark in file.strings for mark in MARKS):
        return None
    undefined = tuple(name.decode("utf-8", "replace") for name in file.undefined())
    if not linked and not any(map(of_torch, undefined)):
        return None
    notes: tuple[str, ...] = ()
    try:
        architectures = gpu_architectures(file)
    except Unreadable as problem:
        architectures, notes = (), (str(problem),)
    return Binary(
        machine=file.machine,
        needed=file.needed,
        rpath=file.rpath,
        runpath=file.runpath,
        undefined=undefined,
        versions_needed=file.versions_needed(),
        gpu_architectures=architectures,
        notes=notes,
    )


def surroundings(host: Host, torch_folder: Path | None, executable: Path | None) -> Iterator[str]:
    """What verdicts rest on besides the shared objects themselves."""
    yield f"trueup {__version__}, {identified(TABLE)}"
    yield f"python {executable} {identified(executable)}"
    yield from (f"{path} {identified(path)}" for path in torch_libraries(torch_folder).values())
    yield identified(host.path(LOADER_CACHE))
    variable = host.variables.get("LD_LIBRARY_PATH", "")
    for folder in (*variable.split(":"), *(str(host.path(folder)) for folder in SYSTEM_FOLDERS)):
        yield f"{folder} {identified(folder)}"


def state_of(parts: Iterable[str], asking: Iterable[tuple[SharedObject, Binary]]) -> bytes:
    """One text for `parts` and the search paths that the modules name."""
    lines = list(parts)
    for each, binary in asking:
        for folder in (*binary.rpath, *binary.runpath):
            path = expanded(folder, each.path, binary.machine)
            lines.append(f"{path} {identified(path)}")
    return os.fsencode("\n".join(lines))


def identified(path: str | Path | None) -> str:
    """Changes when the file, or what lies in the folder, does."""
    try:
        return str(Identity.of(Path(path))) if path else "none"
    except (OSError, ValueError):
        return "none"
