"""What was read out of binaries, kept between runs: a file that is the same file is not read again.

One file per environment in the user's cache folder. Losing it costs time and nothing else, so whatever is wrong with it
or its folder is passed over.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import msgspec

from trueup.environment.byte_ranges import head_of
from trueup.environment.host import Host
from trueup.schema.environment import Extension

FORMAT = 2
"""Raised when what is kept changes its meaning."""
LARGEST = 1 << 26


class Binary(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """What a shared object that asks for torch says of itself."""

    machine: str
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    undefined: tuple[str, ...] = ()
    versions_needed: dict[str, tuple[str, ...]] = {}
    gpu_architectures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Identity(msgspec.Struct, frozen=True, array_like=True):
    """Of a file: another one, or one that was written to, differs in one of these."""

    device: int
    inode: int
    size: int
    modified: int
    """Nanoseconds."""

    @classmethod
    def of(cls, path: Path) -> Identity:
        """Raises OSError."""
        status = os.stat(path)
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class Entry(msgspec.Struct, frozen=True, array_like=True):
    identity: Identity
    binary: Binary | None
    """None for a file that has nothing to do with torch."""


class Listing(msgspec.Struct, frozen=True, array_like=True):
    """What an installer's list of files says, as far as it matters here."""

    identity: Identity
    tops: tuple[str, ...]
    """First parts of the paths: the folders and files that the list covers."""
    files: tuple[str, ...]
    """Shared objects."""
    source: str | None
    """Folder of an editable install."""


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """The content of the cache's file."""

    entries: dict[str, Entry] = {}
    listings: dict[str, Listing] = {}
    state: bytes = b""
    """Of all that the verdicts rest on; they hold as long as it is the same."""
    verdicts: tuple[Extension, ...] = ()


class BinaryCache:
    """The entries of one environment; `save` keeps those that were asked for."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._kept = read(file) if file is not None else Kept()
        self._used: dict[str, Entry] = {}
        self._listings: dict[str, Listing] = {}

    @classmethod
    def of(cls, host: Host, environment: Path) -> BinaryCache:
        """The cache of an environment by one of its folders, under `XDG_CACHE_HOME` or `~/.cache`.

        Two environments that share a file by chance cost each other time: entries are told apart by path."""
        base = host.variables.get("XDG_CACHE_HOME")
        name = f"{zlib.crc32(os.fsencode(environment)):08x}"
        return cls((Path(base) if base else host.home / ".cache") / "trueup" / f"binaries-{FORMAT}" / f"{name}.msgpack")

    def get(self, path: Path, identity: Identity) -> Entry | None:
        entry = self._kept.entries.get(str(path))
        if entry is None or entry.identity != identity:
            return None
        self._used[str(path)] = entry
        return entry

    def put(self, path: Path, identity: Identity, binary: Binary | None) -> None:
        self._used[str(path)] = Entry(identity, binary)

    def listing(self, path: Path, identity: Identity) -> Listing | None:
        listing = self._kept.listings.get(str(path))
        if listing is None or listing.identity != identity:
            return None
        self._listings[str(path)] = listing
        return listing

    def put_listing(self, path: Path, listing: Listing) -> None:
        self._listings[str(path)] = listing

    def verdicts(self, state: bytes) -> tuple[Extension, ...] | None:
        """What was judged in the same state of everything; None when something is another."""
        return self._kept.verdicts if self._kept.state == state else None

    def save(self, state: bytes, verdicts: tuple[Extension, ...]) -> None:
        if self._file is None:
            return
        beside = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            beside.write_bytes(msgspec.msgpack.encode(Kept(self._used, self._listings, state, verdicts)))
            beside.replace(self._file)  # at once: a second doctor may be reading
        except (OSError, UnicodeEncodeError):
            pass


def read(file: Path) -> Kept:
    try:
        return msgspec.msgpack.decode(head_of(file, LARGEST), type=Kept)
    except (OSError, msgspec.MsgspecError, ValueError):
        return Kept()
