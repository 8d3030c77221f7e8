"""What the dynamic loader reads of a shared object, read from the file: nothing is loaded or run.

64 bits, little endian. Every offset, count and chain of the file is bounded, since a damaged or hostile file may say
anything.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import msgspec

from trueup.environment.byte_ranges import Unreadable, read_bytes
from trueup.environment.gnu_hash import SYMBOL, GnuHash, gnu_hash

MACHINES = {3: "i386", 21: "ppc64le", 22: "s390x", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64"}

HEADER = 64
HEAD = 1 << 12
"""Read at once: the header and, in any file that a linker wrote, the program headers behind it."""
DYNAMIC_ENTRY = struct.Struct("<qQ")
VERSION_NEED = struct.Struct("<HHIII")
VERSION_NEED_ENTRY = struct.Struct("<IHHII")
VERSION_DEFINITION = struct.Struct("<HHHHIII")
VERSION_NAME = struct.Struct("<II")
LARGEST_VERSION_TABLE = 1 << 16

PT_LOAD, PT_DYNAMIC = 1, 2
SHT_DYNSYM = 11
DT_NEEDED, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SONAME, DT_RPATH, DT_RUNPATH = 1, 4, 5, 6, 10, 14, 15, 29
DT_GNU_HASH, DT_VERDEF, DT_VERNEED = 0x6FFFFEF5, 0x6FFFFFFC, 0x6FFFFFFE
STB_LOCAL, STB_WEAK = 0, 2
VERSION_WEAK = 2


class Segment(NamedTuple):
    offset: int
    address: int
    size: int


class Section(NamedTuple):
    name: bytes
    type: int
    offset: int
    size: int


class Elf(msgspec.Struct, frozen=True, dict=True):
    """The dynamic section of one file; `read` makes it. Tables are read from the file when they are asked for."""

    path: Path
    machine: str
    segments: tuple[Segment, ...]
    dynamic: tuple[tuple[int, int], ...]
    strings: bytes
    """The dynamic string table: the names of all that is imported and exported."""
    section_table: tuple[int, int, int, int]
    """Offset, entry size, count, index of the section of names."""

    @property
    def needed(self) -> tuple[str, ...]:
        return tuple(self.text(value) for tag, value in self.dynamic if tag == DT_NEEDED)

    @property
    def soname(self) -> str | None:
        return next((self.text(value) for tag, value in self.dynamic if tag == DT_SONAME), None)

    @property
    def rpath(self) -> tuple[str, ...]:
        return self._folders(DT_RPATH)

    @property
    def runpath(self) -> tuple[str, ...]:
        return self._folders(DT_RUNPATH)

    def undefined(self) -> list[bytes]:
        """Names that another object must define, weak ones left out: the loader leaves those unresolved in peace."""
        return [
            self.name(name)
            for name, info, _, section, _, _ in self._symbols()
            if section == 0 and name and info >> 4 not in (STB_LOCAL, STB_WEAK)
        ]

    def exports(self, weak: bool = True) -> set[bytes]:
        """Every name that the file defines for others; without `weak`, inline functions and templates are left out."""
        strings, find = self.strings, self.strings.find
        left_out = (STB_LOCAL,) if weak else (STB_LOCAL, STB_WEAK)
        return {
            strings[name : find(b"\0", name)]
            for name, info, _, section, _, _ in self._symbols()
            if section and name and info >> 4 not in left_out
        }

    def defines(self, name: bytes, hashed: int | None = None) -> bool:
        """Whether the file defines `name`, looked up as the loader does; `hashed`: `gnu_hash(name)` when known."""
        table = self._gnu_hash
        if table is None:
            return name in self._export_set
        return table.finds(name, gnu_hash(name) if hashed is None else hashed)

    def versions_needed(self) -> dict[str, tuple[str, ...]]:
        """Library → symbol versions that it must offer (`libc.so.6` → `GLIBC_2.14`, ...), weak ones left out."""
        needed: dict[str, tuple[str, ...]] = {}
        table = self._version_table(DT_VERNEED)
        for record, (_, count, library, first, _) in followed(table, 0, VERSION_NEED, last=4):
            entries = followed(table, record + first, VERSION_NEED_ENTRY, last=4, limit=count)
            versions = tuple(self.text(name) for _, (_, flags, _, name, _) in entries if not flags & VERSION_WEAK)
            needed[self.text(library)] = needed.get(self.text(library), ()) + versions
        return needed

    def versions_offered(self) -> frozenset[str]:
        """Symbol versions that the file defines."""
        table = self._version_table(DT_VERDEF)
        names: list[str] = []
        for record, (_, _, _, count, _, first, _) in followed(table, 0, VERSION_DEFINITION, last=6):
            # The first name is the version's own, the others are those that it follows upon.
            own = followed(table, record + first, VERSION_NAME, last=1, limit=min(count, 1))
            names += (self.text(name) for _, (name, _) in own)
        return frozenset(names)

    def section(self, name: bytes) -> Section | None:
        return next((section for section in self._sections if section.name == name), None)

    def name(self, offset: int) -> bytes:
        end = self.strings.find(b"\0", offset)
        if end < 0:
            raise Unreadable("a name lies outside the string table")
        return self.strings[offset:end]

    def text(self, offset: int) -> str:
        return self.name(offset).decode("utf-8", "replace")

    def _folders(self, tag: int) -> tuple[str, ...]:
        joined = next((self.text(value) for each, value in self.dynamic if each == tag), "")
        return tuple(folder for folder in joined.split(":") if folder)

    def _value(self, tag: int) -> int | None:
        return next((value for each, value in self.dynamic if each == tag), None)

    def _at(self, address: int, size: int) -> bytes:
        return read_bytes(self.path, offset_of(self.segments, address), size)

    def _symbols(self) -> Iterator[tuple[int, int, int, int, int, int]]:
        table = self._value(DT_SYMTAB)
        if table is None:
            return iter(())
        return SYMBOL.iter_unpack(self._at(table, self._symbol_count(table) * SYMBOL.size))

    def _symbol_count(self, table: int) -> int:
        """The dynamic section does not say how many symbols there are; a stripped file may lack the section table."""
        for section in self._sections:
            if section.type == SHT_DYNSYM:
                return section.size // SYMBOL.size
        if (classic := self._value(DT_HASH)) is not None:
            return int(struct.unpack("<II", self._at(classic, 8))[1])
        if self._gnu_hash is not None and self._gnu_hash.end > 1:
            return self._gnu_hash.end
        strings = self._value(DT_STRTAB) or 0
        return max(strings - table, 0) // SYMBOL.size

    @cached_property
    def _export_set(self) -> set[bytes]:
        return self.exports()

    @cached_property
    def _gnu_hash(self) -> GnuHash | None:
        address, table = self._value(DT_GNU_HASH), self._value(DT_SYMTAB)
        if address is None or table is None:
            return None
        return GnuHash(self.path, offset_of(self.segments, address), offset_of(self.segments, table), self.strings)

    @cached_property
    def _sections(self) -> tuple[Section, ...]:
        offset, entry, count, names_index = self.section_table
        if not offset or not count or entry != 64:
            return ()
        table = read_bytes(self.path, offset, entry * count)
        rows = list(struct.iter_unpack("<IIQQQQIIQQ", table))
        if names_index >= len(rows):
            return ()
        names = read_bytes(self.path, rows[names_index][4], rows[names_index][5])
        return tuple(
            Section(names[row[0] : max(names.find(b"\0", row[0]), row[0])], row[1], row[4], row[5]) for row in rows
        )

    def _version_table(self, tag: int) -> bytes:
        """From its start to beyond its end, which nothing tells."""
        start = self._value(tag)
        if start is None:
            return b""
        return read_bytes(self.path, offset_of(self.segments, start), LARGEST_VERSION_TABLE, short=True)


def followed(
    table: bytes, at: int, record: struct.Struct, last: int, limit: int = 4096
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Offset and fields of the records of a list; field number `last` says how far on the next one lies, 0 ends it."""
    for _ in range(limit if table else 0):
        if at + record.size > len(table):
            raise Unreadable("a list of symbol versions leaves its table")
        fields = record.unpack_from(table, at)
        yield at, fields
        if not fields[last]:
            return
        at += fields[last]


def read(path: Path) -> Elf:
    """Read the dynamic section of `path`. Raises `Unreadable` with the reason in words."""
    head = read_bytes(path, 0, HEAD, short=True)
    if head[:4] != b"\x7fELF":
        raise Unreadable("not an ELF file" if head else "empty")
    if head[4:6] != b"\x02\x01":
        raise Unreadable("not a 64-bit little-endian ELF file")
    if len(head) < HEADER:
        raise Unreadable("truncated")
    fields = struct.unpack("<HHIQQQIHHHHHH", head[16:HEADER])
    machine, program_at, section_at = fields[1], fields[4], fields[5]
    program_size, program_count, section_size, section_count, names_index = fields[8:13]
    if program_size != 56:
        raise Unreadable("its program headers have an unknown size")
    programs = head[program_at : program_at + program_size * program_count]
    if len(programs) != program_size * program_count:
        programs = read_bytes(path, program_at, program_size * program_count)
    segments, dynamic_at = [], None
    for kind, _, offset, address, _, size, _, _ in struct.iter_unpack("<IIQQQQQQ", programs):
        if kind == PT_LOAD:
            segments.append(Segment(offset, address, size))
        elif kind == PT_DYNAMIC:
            dynamic_at = (offset, size)
    dynamic = tuple(dynamic_entries(path, *dynamic_at)) if dynamic_at else ()
    values = dict(dynamic)
    strings = b""
    if DT_STRTAB in values:
        strings = read_bytes(path, offset_of(tuple(segments), values[DT_STRTAB]), values.get(DT_STRSZ, 0))
    name = MACHINES.get(machine, f"machine {machine}")
    return Elf(path, name, tuple(segments), dynamic, strings, (section_at, section_size, section_count, names_index))


def dynamic_entries(path: Path, offset: int, size: int) -> Iterator[tuple[int, int]]:
    for tag, value in DYNAMIC_ENTRY.iter_unpack(read_bytes(path, offset, size - size % DYNAMIC_ENTRY.size)):
        if tag == 0:
            return
        yield tag, value


def offset_of(segments: tuple[Segment, ...], address: int) -> int:
    """Where in the file the loader would map `address` from."""
    for segment in segments:
        if segment.address <= address < segment.address + segment.size:
            return address - segment.address + segment.offset
    raise Unreadable("an address lies outside the loaded segments")
