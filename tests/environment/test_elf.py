"""Shared objects read without loading them, against what binutils reads of the same files."""

import random
import subprocess
from pathlib import Path

import pytest
from compiled import calling, compiled

from trueup.environment import elf
from trueup.environment.byte_ranges import Unreadable
from trueup.environment.gnu_hash import gnu_hash

SOURCE = """
#include <stdio.h>
int exported(int x) { return x + 1; }
__attribute__((weak)) int weak_definition(void) { return 2; }
__attribute__((visibility("hidden"))) int hidden(void) { return 3; }
static int local(void) { return 4; }
extern int wanted(void);
extern int optional(void) __attribute__((weak));
int caller(void) { printf("%d", wanted()); return local() + hidden() + (optional ? optional() : 0); }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("elf")
    helper = compiled(folder / "libhelper.so.3", "int helps(void) { return 1; }", "-Wl,-soname,libhelper.so.3")
    return compiled(
        folder / "subject.so", SOURCE, "-Wl,--no-as-needed", str(helper), "-Wl,-rpath,$ORIGIN/../lib:/opt/cuda/lib64"
    )


def names(path: Path, option: str) -> set[str]:
    """Symbols as `nm` lists them, without versions; of the undefined ones the strong."""
    lines = subprocess.run(["nm", "-D", option, str(path)], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in lines.splitlines()]
    return {row[-1].split("@")[0] for row in rows if option == "--defined-only" or row[0] == "U"}


def test_reads_what_a_library_needs_and_where_it_looks(library):
    file = elf.read(library)
    assert file.machine == subprocess.run(["uname", "-m"], capture_output=True, text=True).stdout.strip()
    assert file.needed[0] == "libhelper.so.3"
    assert "libc.so.6" in file.needed
    assert (*file.rpath, *file.runpath) == ("$ORIGIN/../lib", "/opt/cuda/lib64")
    assert elf.read(library.with_name("libhelper.so.3")).soname == "libhelper.so.3"


@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
def test_symbols_are_those_that_nm_lists(tmp_path, style):
    path = compiled(tmp_path / "subject.so", SOURCE, f"-Wl,--hash-style={style}")
    file = elf.read(path)
    exports = {name.decode() for name in file.exports()}
    assert exports == names(path, "--defined-only")
    assert {"exported", "weak_definition", "caller"} <= exports
    assert not {"hidden", "local", "wanted"} & exports
    assert {name.decode() for name in file.undefined()} == names(path, "--undefined-only")
    assert b"wanted" in file.undefined()
    assert b"optional" not in file.undefined()
    assert b"weak_definition" not in file.exports(weak=False)
    assert all(file.defines(name) for name in file.exports())
    assert not any(file.defines(name) for name in (b"wanted", b"optional", b"hidden", b"printf", b"export", b""))


def test_a_stripped_section_table_hides_nothing(library, tmp_path):
    data = bytearray(library.read_bytes())
    data[40:48] = bytes(8)  # e_shoff
    data[60:64] = bytes(4)  # e_shnum, e_shstrndx
    stripped = tmp_path / "stripped.so"
    stripped.write_bytes(data)
    assert elf.read(stripped).exports() == elf.read(library).exports()
    assert elf.read(stripped).undefined() == elf.read(library).undefined()


def test_a_library_that_exports_nothing(tmp_path):
    path = compiled(tmp_path / "silent.so", calling("wanted"), "-fvisibility=hidden")
    file = elf.read(path)
    assert b"wanted" in file.undefined()
    assert {name.decode() for name in file.exports()} == names(path, "--defined-only")
    assert not file.defines(b"entry")


def test_symbol_versions_of_needs_and_offers(tmp_path):
    script = tmp_path / "versions"
    script.write_text("SUBJECT_1.0 { global: first; local: *; };\nSUBJECT_2.0 { global: second; } SUBJECT_1.0;\n")
    source = "void first(void) {}\nvoid second(void) {}\n"
    library = compiled(
        tmp_path / "libsubject.so", source, f"-Wl,--version-script={script}", "-Wl,-soname,libsubject.so"
    )
    user = compiled(tmp_path / "user.so", calling("first", "second"), str(library))
    assert {"SUBJECT_1.0", "SUBJECT_2.0"} <= elf.read(library).versions_offered()
    assert set(elf.read(user).versions_needed()["libsubject.so"]) == {"SUBJECT_1.0", "SUBJECT_2.0"}


def test_hash_of_the_loader():
    # Values of the description of the format, https://flapenguin.me/elf-dt-gnu-hash
    assert gnu_hash(b"") == 0x00001505
    assert gnu_hash(b"printf") == 0x156B2BB8
    assert gnu_hash(b"flapenguin.me") == 0x8AE9F18E


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"#!/bin/sh\n" + bytes(100), "not an ELF file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64, "not an ELF file"),
        (b"\x7fELF\x01\x01" + bytes(100), "not a 64-bit little-endian ELF file"),
        (b"\x7fELF\x02\x01", "truncated"),
    ],
)
def test_what_is_no_shared_object_is_said(tmp_path, data, reason):
    path = tmp_path / "file.so"
    path.write_bytes(data)
    with pytest.raises(Unreadable, match=reason):
        elf.read(path)


def test_folders_devices_and_pipes_are_refused(tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe.so")
    for path in (tmp_path, tmp_path / "pipe.so", Path("/dev/zero"), tmp_path / "absent.so"):
        with pytest.raises(Unreadable):
            elf.read(path)


def everything(path: Path) -> None:
    """Ask a file for all that can be asked."""
    file = elf.read(path)
    assert all(isinstance(part, str) for part in (*file.needed, *file.rpath, *file.runpath, file.soname or ""))
    for ask in (file.undefined, file.exports, file.versions_needed, file.versions_offered):
        ask()
    file.defines(b"exported")
    file.section(b".nv_fatbin")


def readable(path: Path) -> bool:
    try:
        everything(path)
    except Unreadable:
        return False
    return True


def test_a_file_cut_anywhere_is_read_or_refused(library, tmp_path):
    data, path = library.read_bytes(), tmp_path / "cut.so"
    results = []
    for size in range(0, len(data), 37):
        path.write_bytes(data[:size])
        results.append(readable(path))
    assert not all(results)


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_file_is_read_or_refused(library, tmp_path, seed):
    """Bytes of the header, of the program headers and of the dynamic tables overwritten at random."""
    data, path, draw = library.read_bytes(), tmp_path / "damaged.so", random.Random(seed)
    results = []
    for _ in range(300):
        broken = bytearray(data)
        for _ in range(draw.choice((1, 4, 32))):
            at = draw.randrange(16, len(broken)) if draw.random() < 0.5 else draw.randrange(16, 0x600)
            broken[at] = draw.choice((0, 0xFF, 0x7F, 0x80, draw.randrange(256)))
        path.write_bytes(broken)
        results.append(readable(path))
    assert not all(results)
