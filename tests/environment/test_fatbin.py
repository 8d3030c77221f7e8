"""Headers of CUDA code. The sections here are made by the layout that `fatbin.py` describes; the same reader is tested
on real ones of wheels in `test_real_wheels.py`."""

import struct
from pathlib import Path

import pytest
from compiled import compiled

from trueup.environment import elf
from trueup.environment.byte_ranges import Unreadable
from trueup.environment.fatbin import gpu_architectures

PTX, CUBIN, SPECIFIC = 1, 2, 0x100000


def entry(kind: int, architecture: int, flags: int = 0x11, payload: int = 48) -> bytes:
    head = struct.pack("<HHIQIIHHIIIQ", kind, 0x101, 64, payload, 0, 0, 8, 1, architecture, 0, 0, flags)
    return head.ljust(64, b"\0") + b"\x7f" * payload


def container(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def with_section(folder: Path, data: bytes, name: str = ".nv_fatbin") -> elf.Elf:
    listed = ",".join(map(str, data)) or "0"
    source = f'__attribute__((section("{name}"), used)) static const unsigned char code[] = {{{listed}}};\n'
    return elf.read(compiled(folder / "subject.so", source))


def test_architectures_in_order(tmp_path):
    data = container(entry(PTX, 90), entry(CUBIN, 90, 0x11 | SPECIFIC), entry(CUBIN, 80, payload=8))
    data += bytes(24) + container(entry(CUBIN, 120), entry(CUBIN, 80)) + bytes(100)
    assert gpu_architectures(with_section(tmp_path, data)) == ("sm_80", "sm_90a", "compute_90", "sm_120")


def test_relocatable_code(tmp_path):
    assert gpu_architectures(with_section(tmp_path, container(entry(CUBIN, 75)), "__nv_relfatbin")) == ("sm_75",)


def test_no_cuda_code(tmp_path):
    assert gpu_architectures(elf.read(compiled(tmp_path / "plain.so", "int nothing;"))) == ()


@pytest.mark.parametrize(
    "data",
    [
        bytes(8000),
        b"\xff" * 8000,
        container(struct.pack("<HHIQIIHHIIIQ", 2, 1, 0, 0, 0, 0, 0, 0, 90, 0, 0, 0).ljust(4096, b"\0")),
    ],
)
def test_headers_of_an_unknown_kind_are_refused(tmp_path, data):
    with pytest.raises(Unreadable):
        gpu_architectures(with_section(tmp_path, data))


def test_sizes_beyond_the_section_end_the_reading(tmp_path):
    data = (
        struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 1 << 62)
        + entry(CUBIN, 86)[:8]
        + struct.pack("<Q", 1 << 40)
        + entry(CUBIN, 86)[16:]
    )
    assert gpu_architectures(with_section(tmp_path, data)) == ("sm_86",)
