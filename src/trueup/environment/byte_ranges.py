"""Parts of a file, read so that no file can stop or end the program.

With `pread` rather than a mapping: a file that shrinks while it is read then gives short data, where a mapping would
give a SIGBUS.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from array import array
from pathlib import Path
from typing import BinaryIO

LARGEST_TABLE = 1 << 26
"""No dynamic table of a real library comes near this size (libtorch_cpu: 12 MB); a larger one is damage."""


class Unreadable(Exception):
    """The file is no ELF file of the kind read here, or is damaged; the message says which."""


def opened(path: str | Path) -> BinaryIO:
    """A regular file, opened for reading.

    Raises OSError, also for a FIFO or a device in its place, which would stop the program or never end."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return open(handle, "rb", buffering=0)
    except OSError:
        os.close(handle)
        raise


def head_of(path: str | Path, size: int) -> bytes:
    """At most `size` bytes from the start of a regular file; raises as `opened`."""
    with opened(path) as file:
        pieces = []
        while size > 0 and (piece := file.read(min(size, 1 << 20))):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


def read_bytes(path: Path, offset: int, size: int, short: bool = False) -> bytes:
    """`size` bytes at `offset`; with `short`, fewer at the end of the file."""
    if size > LARGEST_TABLE:
        raise Unreadable("a table is larger than any real one")
    try:
        # Not blocking: a FIFO in the place of a library must not stop the program.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise Unreadable("not a regular file")
            if short:
                size = max(min(size, status.st_size - offset), 0)
            if offset + size > status.st_size:
                raise Unreadable("truncated" if status.st_size else "empty")
            data = os.pread(handle, size, offset)
        finally:
            os.close(handle)
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from None
    if len(data) != size:
        raise Unreadable("truncated")
    return data


def integers(kind: str, data: bytes) -> array[int]:
    """Little-endian unsigned integers, of 32 (`I`) or 64 bits (`Q`)."""
    values = array(kind, data)
    if sys.byteorder == "big":
        values.byteswap()
    return values
