"""Where the dynamic loader would find a library, without asking it: the search of ld.so(8), from files."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

import msgspec

from trueup.environment import elf
from trueup.environment.byte_ranges import Unreadable, head_of
from trueup.environment.host import Host

LOADER_CACHE = "/etc/ld.so.cache"
CACHE_MAGIC = b"glibc-ld.so.cache1.1"
CACHE_HEADER = 48
CACHE_ENTRY = struct.Struct("<iIIIQ")
OLD_CACHE_MAGIC = b"ld.so-1.7.0"
LARGEST_CACHE = 1 << 24
SYSTEM_FOLDERS = ("/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib")
TOKEN = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


class Asker(msgspec.Struct, frozen=True, kw_only=True):
    """A file that needs libraries, and the search paths written into it."""

    path: Path
    needed: tuple[str, ...]
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()

    @classmethod
    def of(cls, file: elf.Elf) -> Asker:
        return cls(path=file.path, needed=file.needed, rpath=file.rpath, runpath=file.runpath)


class Libraries:
    """The libraries that a process of one environment would load."""

    def __init__(
        self,
        host: Host,
        machine: str,
        *,
        loaded: Mapping[str, Path],
        preferred: Mapping[str, Path],
        others: Mapping[str, Path],
        program: Asker | None = None,
    ) -> None:
        """`loaded`: in the process before any extension (torch's own), by file name; `preferred`: those of CUDA
        packages, which torch loads from the environment; `others`: any other library file of the environment, which
        its package may load by itself; `program`: the interpreter, whose RPATH counts for all."""
        self._host, self._machine = host, machine
        self._loaded, self._preferred, self._others, self._program = loaded, preferred, others, program
        self._files: dict[Path, elf.Elf | None] = {}
        self._found: dict[tuple[str, tuple[str, ...]], Path | None] = {}

    def file(self, path: Path) -> elf.Elf | None:
        """The library at `path`, None when the loader could not load it."""
        if path not in self._files:
            try:
                found = elf.read(path)
                self._files[path] = found if found.machine == self._machine else None
            except Unreadable:
                self._files[path] = None
        return self._files[path]

    def closure(self, asker: Asker) -> tuple[dict[str, elf.Elf], tuple[str, ...]]:
        """All that is loaded with a file, by the name asked for, and the names that are not found.

        What the libraries of torch or of the system lack is not counted: that is no matter of the file."""
        found: dict[str, elf.Elf] = {}
        missing: dict[str, None] = {}
        waiting = [asker]
        while waiting:
            each = waiting.pop()
            inherited = asker.rpath if not asker.runpath and each is not asker else ()
            for name in each.needed:
                if name in found or name in missing:
                    continue
                path = self.find(name, each, inherited, asker.path)
                library = None if path is None else self.file(path)
                if library is not None:
                    found[name] = library
                    waiting.append(Asker.of(library))
                elif each is asker or each.path.parent == asker.path.parent:
                    missing[name] = None
        return found, tuple(missing)

    def find(self, name: str, asker: Asker, inherited: tuple[str, ...] = (), root: Path | None = None) -> Path | None:
        """The file that is loaded when `asker` needs `name`; `inherited`: RPATH of the file `root` that needs it."""
        folders = (*self._folders(asker), *(expanded(each, root or asker.path, self._machine) for each in inherited))
        key = (name, folders)
        if key not in self._found:
            self._found[key] = next((path for path in self._candidates(name, folders) if self._loadable(path)), None)
        return self._found[key]

    def _candidates(self, name: str, folders: tuple[str, ...]) -> Iterator[Path]:
        if "/" in name:
            yield Path(name)
            return
        if name in self._loaded:
            yield self._loaded[name]
        for folder in folders:
            yield Path(folder) / name
        if name in self._preferred:
            yield self._preferred[name]
        if name in self._cached:
            yield self._host.path(self._cached[name])
        for folder in self._system_folders:
            yield self._host.path(folder) / name
        if name in self._others:
            yield self._others[name]

    def _loadable(self, path: Path) -> bool:
        return path.exists() and self.file(path) is not None

    def _folders(self, asker: Asker) -> tuple[str, ...]:
        own_rpath = asker.rpath if not asker.runpath else ()
        before = [expanded(folder, asker.path, self._machine) for folder in own_rpath]
        if self._program is not None and not self._program.runpath:
            before += [expanded(folder, self._program.path, self._machine) for folder in self._program.rpath]
        after = [expanded(folder, asker.path, self._machine) for folder in asker.runpath]
        return (*before, *self._variable, *after)

    @cached_property
    def _variable(self) -> tuple[str, ...]:
        given = self._host.variables.get("LD_LIBRARY_PATH", "")
        return tuple(str(self._host.folder / folder) for folder in re.split("[:;]", given) if folder)

    @cached_property
    def _cached(self) -> dict[str, str]:
        return loader_cache(self._host.path(LOADER_CACHE), self._machine)

    @cached_property
    def _system_folders(self) -> tuple[str, ...]:
        multiarch = f"{self._machine}-linux-gnu"
        return (f"/lib/{multiarch}", f"/usr/lib/{multiarch}", *SYSTEM_FOLDERS)


def expanded(folder: str, asker: Path, machine: str) -> str:
    """A search path with `$ORIGIN`, `$LIB` and `$PLATFORM` written out."""
    values = {"ORIGIN": str(asker.parent), "LIB": "lib64", "PLATFORM": machine}
    return TOKEN.sub(lambda found: values.get(found[1] or found[2], found[0]), folder)


def loader_cache(path: Path, machine: str) -> dict[str, str]:
    """Library → path out of a file like `/etc/ld.so.cache`; empty when it cannot be read.

    Layout: https://sourceware.org/git/?p=glibc.git;a=blob;f=sysdeps/generic/dl-cache.h
    """
    try:
        data = head_of(path, LARGEST_CACHE)
    except OSError:
        return {}
    if data.startswith(OLD_CACHE_MAGIC):  # the new cache stands behind the old one, aligned to 8 bytes
        data = data[max(data.find(CACHE_MAGIC), 0) :]
    if not data.startswith(CACHE_MAGIC) or len(data) < CACHE_HEADER:
        return {}
    (count,) = struct.unpack_from("<I", data, len(CACHE_MAGIC))
    wanted = {"x86_64": 0x0303, "aarch64": 0x0A03}.get(machine)
    libraries: dict[str, str] = {}
    entries = data[CACHE_HEADER : CACHE_HEADER + count * CACHE_ENTRY.size]
    for flags, key, value, _, _ in CACHE_ENTRY.iter_unpack(entries[: len(entries) - len(entries) % CACHE_ENTRY.size]):
        if wanted is None or flags == wanted:
            libraries.setdefault(text_at(data, key), text_at(data, value))
    return libraries


def text_at(data: bytes, offset: int) -> str:
    end = data.find(b"\0", offset)
    return os.fsdecode(data[offset : end if end >= 0 else offset])


def by_file_name(paths: Iterable[Path]) -> dict[str, Path]:
    """File name → path, the first of a name counting."""
    names: dict[str, Path] = {}
    for path in paths:
        names.setdefault(path.name, path)
    return names
