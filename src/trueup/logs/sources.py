"""Where the text of a job comes from: a file, a folder of files, standard input; compressed or not."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, cast

FILES_LIMIT = 20_000
"""Files read of one folder."""

_SUFFIXES = {"", ".log", ".out", ".err", ".txt", ".json", ".jsonl", ".stdout", ".stderr", ".gz", ".bz2", ".xz", ".md"}
_MAGIC: tuple[tuple[bytes, str], ...] = ((b"\x1f\x8b", "gzip"), (b"BZh", "bz2"), (b"\xfd7zXZ\x00", "xz"))

DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""What reading may raise in the middle of a damaged or vanishing file."""


@dataclass(frozen=True)
class Source:
    """One file of a job, or the only text there is."""

    name: str | None
    """Relative to the folder that was given; None when a single text was given."""
    path: Path | None = None
    stream: BinaryIO | None = None

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Its bytes, decompressed; a stream that was handed in stays open."""
        if self.stream is not None:
            buffered = (
                self.stream if hasattr(self.stream, "peek") else io.BufferedReader(cast(io.RawIOBase, self.stream))
            )
            try:
                yield _decompressed(cast(io.BufferedReader, buffered))
            finally:
                if buffered is not self.stream:
                    cast(io.BufferedReader, buffered).detach()
        else:
            assert self.path is not None
            with self.path.open("rb") as file:
                yield _decompressed(file)


def sources(source: Path | str | BinaryIO | Literal["-"]) -> Iterator[Source]:
    """What to read, in a stable order. Raises FileNotFoundError for a path that does not exist."""
    if isinstance(source, (str, Path)):
        if str(source) == "-":
            yield Source(None, stream=sys.stdin.buffer)
            return
        path = Path(source)
        if path.is_dir():
            yield from _files(path)
        elif path.exists():
            yield Source(None, path=path)
        else:
            raise FileNotFoundError(f"no such file or folder: {path}")
    else:
        yield Source(None, stream=source)


def _files(folder: Path) -> Iterator[Source]:
    found = (path for path in folder.rglob("*") if path.suffix.lower() in _SUFFIXES or path.suffix[1:].isdigit())
    visible = (path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts))
    files = sorted(path for path in visible if path.is_file())
    for path in files[:FILES_LIMIT]:
        yield Source(path.relative_to(folder).as_posix(), path=path)


def _decompressed(buffered: io.BufferedReader) -> BinaryIO:
    """By the first bytes, not by the name: rotated logs are renamed, downloads lose their suffix."""
    head = buffered.peek(8)[:8]
    kind = next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)
    if kind == "gzip":
        return cast(BinaryIO, gzip.GzipFile(fileobj=buffered))
    if kind == "bz2":
        return cast(BinaryIO, bz2.BZ2File(buffered))
    if kind == "xz":
        return cast(BinaryIO, lzma.LZMAFile(buffered))
    return buffered
