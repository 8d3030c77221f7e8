"""GPU architectures that a binary carries code for, from the headers of its CUDA fat binaries.

Sections `.nv_fatbin` and `__nv_relfatbin` hold containers one after the other; each holds entries with a header of its
own, also when the code is compressed. NVIDIA does not publish the layout. It is described by the authors of
decompressors (https://github.com/n-eiling/cuda-fatbin-decompression) and was checked on wheels built with CUDA 11.7 to
13.0, and, with the flags, on what nvcc 13.0 makes of each kind of `-gencode`:

    container: u32 magic, u16 version, u16 header size, u64 size of the entries
    entry:     u16 kind (1 PTX, 2 cubin), u16 version, u32 header size, u64 payload size, u32 x 2, u16 x 2,
               u32 architecture, u32 x 2, u64 flags
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

from trueup.environment.byte_ranges import Unreadable, opened
from trueup.environment.elf import Elf, Section

SECTIONS = (b".nv_fatbin", b"__nv_relfatbin")
MAGIC = 0xBA55ED50
CONTAINER = struct.Struct("<IHHQ")
ENTRY = struct.Struct("<HHIQIIHHIIIQ")
PTX, CUBIN = 1, 2
SUFFIXES = ((0x100000, "a"), (0x200000, "f"))
"""Flags of code for exactly one architecture (`sm_90a`) and for the later ones of its family (`sm_100f`)."""
MOST_ENTRIES = 100_000
PADDING = 4096
"""Containers are aligned to 8 bytes in most binaries, to 256 in libtorch_cuda."""


def gpu_architectures(elf: Elf) -> tuple[str, ...]:
    """`sm_80`, `sm_90a`, ... of machine code and `compute_90` of PTX, in rising order; empty without CUDA code.

    Raises `Unreadable` when a section is there and none of its headers can be read."""
    found: set[tuple[int, bool, str]] = set()
    for name in SECTIONS:
        if (section := elf.section(name)) is not None:
            found.update(entries(elf.path, section))
    return tuple(text for _, _, text in sorted(found))


def entries(path: Path, section: Section) -> Iterator[tuple[int, bool, str]]:
    """Architecture as a number, whether it is PTX, and its name, of each entry."""
    at, end, seen = section.offset, section.offset + section.size, 0
    with opened(path) as file:
        handle = file.fileno()
        while (at := container_at(handle, at, end)) < end:
            _, _, header, size = unpacked(CONTAINER, handle, at)
            entry, at = at + header, at + header + size
            while entry + ENTRY.size <= min(at, end):
                kind, _, header, size, _, _, _, _, architecture, _, _, flags = unpacked(ENTRY, handle, entry)
                if kind in (PTX, CUBIN):
                    suffix = "".join(letter for flag, letter in SUFFIXES if flags & flag)
                    yield architecture, kind == PTX, f"{'compute' if kind == PTX else 'sm'}_{architecture}{suffix}"
                entry += header + size
                seen += 1
                if header < ENTRY.size or seen > MOST_ENTRIES:
                    raise Unreadable("its CUDA code has headers of an unknown kind")


def container_at(handle: int, at: int, end: int) -> int:
    """Where the next container starts, at `at` or after a little padding; `end` when there is none."""
    if at + CONTAINER.size > end:
        return end
    start = os.pread(handle, min(PADDING, end - at), at).find(struct.pack("<I", MAGIC))
    if start < 0 and end - at > PADDING:
        raise Unreadable("its CUDA code has headers of an unknown kind")
    return at + start if start >= 0 else end


def unpacked(layout: struct.Struct, handle: int, at: int) -> tuple[int, ...]:
    data = os.pread(handle, layout.size, at)
    if len(data) != layout.size:
        raise Unreadable("truncated")
    return layout.unpack(data)
