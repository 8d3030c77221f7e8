"""Wheels of the registry, built for many releases of torch, against the torch that is installed here (2.13, CPU only).

They are downloaded once and kept beside pytest's cache; nothing of them is installed or imported.
"""

import fcntl
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest
from compiled import installed_torch, variables

from trueup.environment import elf
from trueup.environment.extensions import extensions
from trueup.environment.host import Host
from trueup.environment.ladder import ladder
from trueup.environment.torch_build import torch_facts
from trueup.schema.environment import Extension

pytestmark = [pytest.mark.network, pytest.mark.timeout(900)]

PLATFORMS = ("manylinux1", "manylinux2014", "manylinux_2_17", "manylinux_2_24", "manylinux_2_27", "manylinux_2_28")


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
    Wheel("TorchCodec==0.2.1", "torchcodec/libtorchcodec7.so", "2.6", ">=2.6,<2.10", "old", False, True, names("")),
)


@pytest.fixture(scope="session")
def store(pytestconfig) -> Path:
    folder = pytestconfig.rootpath / ".pytest_cache" / "d" / "wheels"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def unpacked(store: Path, requirement: str) -> Path:
    """A folder of packages that holds the wheel, downloaded at the first time."""
    place = store / requirement.replace("==", "-")
    with (store / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other workers want the same wheels
        if not (place / "done").exists():
            download(requirement, place)
            (wheel,) = place.glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(place / "site-packages")
            wheel.unlink()
            (place / "done").touch()
    return place / "site-packages"


def download(requirement: str, place: Path) -> None:
    platforms = [part for name in PLATFORMS for part in ("--platform", f"{name}_x86_64")]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", *platforms]
    command += ["--python-version", "310", "--dest", str(place), requirement]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode and "connection" in done.stderr.lower():
        pytest.skip(f"the registry is not reached: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr


@pytest.fixture
def judged(store, tmp_path):
    if os.uname().machine != "x86_64":
        pytest.skip("these wheels are for x86_64")
    facts = torch_facts(installed_torch())
    if facts is None or not facts.version.startswith("2.13.") or facts.cuda is not None:
        pytest.skip("the verdicts are on torch 2.13 for CPUs")

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


def test_libraries_that_ask_for_no_torch_are_left_out(judged):
    files = set(judged("torchvision==0.28.0"))
    assert files == {"torchvision/_C.so", "torchvision/image.so"}
