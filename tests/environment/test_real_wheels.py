"""Wheels of the registry, built for many releases of torch, against the torch that is installed here (2.13, CPU only).

Nothing of them is installed or imported. What each verdict is like in a whole environment: `test_healthy_wheels.py`.
"""

import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from compiled import installed_torch, variables
from registry_wheels import skip_unless_cpu_torch_2_13, unpacked

from trueup.environment import elf
from trueup.environment.extensions import extensions
from trueup.environment.host import Host
from trueup.environment.ladder import ladder
from trueup.schema.environment import Extension

pytestmark = [pytest.mark.network, pytest.mark.timeout(900)]


class Wheel(NamedTuple):
    requirement: str
    module: str
    built_for: str
    """The torch that its publisher pairs it with."""
    range: str
    string_abi: str
    stable: bool
    missing: bool
    """Whether it lacks something of torch 2.13 itself, CUDA left aside."""
    architectures: frozenset[str]


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


OLD_GPUS = names("sm_50 compute_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90")
NEW_GPUS = names("sm_75 sm_80 sm_86 sm_90 sm_100 sm_120 compute_120")

WHEELS = (
    Wheel("torchvision==0.19.1", "torchvision/_C.so", "2.4", ">=2.4,<2.6", "old", False, True, OLD_GPUS),
    Wheel("torchvision==0.21.0", "torchvision/_C.so", "2.6", ">=2.6,<2.8", "old", False, True, OLD_GPUS),
    Wheel("torchvision==0.22.1", "torchvision/_C.so", "2.7", ">=2.7,<2.8", "cxx11", False, True, OLD_GPUS),
    Wheel(
        *("torchvision==0.24.1", "torchvision/_C.so", "2.9", ">=2.9,<2.10", "cxx11", False, True),
        names("sm_70 sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"),
    ),
    Wheel("torchvision==0.28.0", "torchvision/_C.so", "2.13", ">=2.12,<2.14", "cxx11", False, False, NEW_GPUS),
    Wheel(
        "torchaudio==2.11.0", "torchaudio/lib/libtorchaudio.abi3.so", "2.11", ">=2.11", "none", True, False, NEW_GPUS
    ),
    Wheel("torchao==0.18.0", "torchao/_C_cutlass_90a.abi3.so", "2.13", ">=2.10", "none", True, False, names("sm_90a")),
    Wheel(
        *("torchao==0.13.0", "torchao/_C_cutlass_100a.abi3.so", "2.8", ">=2.6,<2.10", "cxx11", False, True),
        names("sm_100a"),
    ),
    Wheel(
        *("xformers==0.0.35", "xformers/_C.so", "2.10", ">=2.10", "none", True, False),
        names("sm_75 sm_80 compute_80 sm_90a"),
    ),
    Wheel(
        *("vllm-flash-attn==2.6.2", "vllm_flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so", "2.4", ">=2.4,<2.8"),
        *("old", False, True, names("sm_80 sm_90")),
    ),
    Wheel("fa3-fwd==0.0.3", "fa3_fwd/_C.abi3.so", "2.11", ">=2.11", "none", True, False, names("sm_80 sm_90a")),
    Wheel("TorchCodec==0.2.1", "torchcodec/libtorchcodec7.so", "2.6", ">=2.6,<2.10", "old", False, True, names("")),
)


@pytest.fixture
def judged(store, tmp_path):
    skip_unless_cpu_torch_2_13()

    def judge(requirement: str) -> dict[str, Extension]:
        host = Host(variables=variables(tmp_path))
        packages = unpacked(store, requirement)
        found, notes = extensions([packages], installed_torch(), executable=Path(sys.executable), host=host)
        assert notes == ()
        return {extension.file: extension for extension in found}

    return judge


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda wheel: f"{wheel.requirement}-{Path(wheel.module).name}")
def test_the_verdict_on_a_wheel(judged, wheel):
    extension = judged(wheel.requirement)[wheel.module]
    assert extension.built_for_torch == wheel.range
    assert (extension.string_abi, extension.stable_abi) == (wheel.string_abi, wheel.stable)
    assert set(extension.gpu_architectures) == wheel.architectures
    assert set(extension.missing_cuda_symbols) <= set(extension.missing_symbols)
    of_torch = [name for name in extension.missing_symbols if name not in extension.missing_cuda_symbols]
    assert bool(of_torch) == wheel.missing, of_torch
    assert ("std::string" in " ".join(of_torch)) == (wheel.string_abi == "old")
    if wheel.architectures:
        assert {"libc10_cuda.so", "libtorch_cuda.so"} & set(extension.missing_libraries)


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda wheel: f"{wheel.requirement}-{Path(wheel.module).name}")
def test_no_module_of_a_wheel_contradicts_the_torch_it_is_paired_with(judged, store, wheel):
    """The table was made from wheels of torch; what these packages ask for is another witness."""
    for name in judged(wheel.requirement):
        asked = [symbol.decode() for symbol in elf.read(unpacked(store, wheel.requirement) / name).undefined()]
        assert wheel.built_for in ladder().releases_with(asked), name


@pytest.mark.slow
@pytest.mark.parametrize("requirement", ["vllm==0.31.0", "sgl-kernel==0.3.21"])
def test_the_large_ones(judged, requirement):
    """vllm is on the stable ABI of torch, so all that it lacks here is CUDA; sgl-kernel was built for torch 2.9."""
    found = [each for each in judged(requirement).values() if each.missing_symbols and each.python_tag == "abi3"]
    of_torch = {each.file: set(each.missing_symbols) - set(each.missing_cuda_symbols) for each in found}
    assert len(of_torch) >= 6
    assert all(map(bool, of_torch.values())) == (requirement == "sgl-kernel==0.3.21")
    assert any(map(bool, of_torch.values())) == (requirement == "sgl-kernel==0.3.21")
    assert not any("std::string" in " ".join(symbols) for symbols in of_torch.values())


def test_libraries_of_another_kind_are_no_extensions(judged):
    """bitsandbytes loads its libraries with ctypes: they ask for CUDA and for nothing of torch."""
    assert judged("bitsandbytes==0.50.2") == {}


def test_libraries_that_ask_for_no_torch_are_left_out(judged):
    files = set(judged("torchvision==0.28.0"))
    assert files == {"torchvision/_C.so", "torchvision/image.so"}
