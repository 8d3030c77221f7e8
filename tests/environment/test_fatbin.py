"""Headers of CUDA code. The sections here are made by the layout that `fatbin.py` describes, where there is a compiler
by nvcc; the same reader is tested on those of wheels in `test_real_wheels.py`."""

import shutil
import struct
import subprocess
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


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="the CUDA compiler is not installed")
@pytest.mark.parametrize(
    ("options", "architectures"),
    [
        ("arch=compute_80,code=sm_80 arch=compute_90a,code=sm_90a", ("sm_80", "sm_90a")),
        ("arch=compute_80,code=compute_80 arch=compute_90a,code=compute_90a", ("compute_80", "compute_90a")),
        ("arch=compute_100f,code=[sm_100f,compute_100f]", ("sm_100f", "compute_100f")),
    ],
)
def test_what_the_compiler_makes(tmp_path, options, architectures):
    source = tmp_path / "kernel.cu"
    source.write_text("__global__ void kernel(float *x) { x[threadIdx.x] += 1; }\n")
    wanted = [part for option in options.split(" ") for part in ("-gencode", option)]
    command = ["nvcc", "-shared", "-Xcompiler", "-fPIC", *wanted, "-o", str(tmp_path / "kernel.so"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if "Unsupported gpu architecture" in done.stderr:
        pytest.skip("this CUDA compiler does not know the architecture")
    assert done.returncode == 0, done.stderr
    assert gpu_architectures(elf.read(tmp_path / "kernel.so")) == architectures


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
