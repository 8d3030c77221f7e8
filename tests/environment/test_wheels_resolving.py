"""Environments and the wheel that a person who knows the field would choose for them; and why the others are not it."""

import msgspec
import pytest

from trueup.environment.wheels.knowledge import UnknownPackage
from trueup.environment.wheels.resolving import resolve
from trueup.schema.environment import Environment, Extension, Gpu, Package, Tool, Torch
from trueup.schema.wheels import Candidate, Resolution

GIB = 1024**3
TORCHES = {  # the official builds: version, CUDA, string ABI as their own libraries have it
    "2.6.0+cu124": ("12.4", "old"),
    "2.6.0+cu126": ("12.6", "cxx11"),
    "2.7.1+cu128": ("12.8", "cxx11"),
    "2.8.0+cu128": ("12.8", "cxx11"),
    "2.9.1+cu128": ("12.8", "cxx11"),
    "2.10.0+cu130": ("13.0", "cxx11"),
    "2.13.0+cu130": ("13.0", "cxx11"),
    "2.14.0+cu130": ("13.0", "cxx11"),
    "2.13.0+cpu": (None, "cxx11"),
}


def environment(torch: str | None = "2.8.0+cu128", python: str = "cp312", gpu: str = "9.0", **other) -> Environment:
    """A Linux machine with one GPU of a compute capability; `gpu=""` for none."""
    machine, glibc = other.pop("machine", "x86_64"), other.pop("glibc", "2.35")
    tools = {"glibc": Tool(name="glibc", version=glibc)} | other.pop("tools", {})
    codes = other.pop("codes", ())
    cuda, abi = TORCHES[torch] if torch else (None, None)
    return Environment(
        python_tag=python,
        executable="/env/bin/python",
        prefix="/env",
        platform="Linux 6.1.0",
        machine=machine,
        torch=Torch(version=torch, cuda=cuda, string_abi=abi, gpu_architectures=codes) if torch else None,
        gpus=(Gpu(index=0, name="a GPU", compute_capability=gpu),) if gpu else (),
        driver_cuda=other.pop("driver", "13.0") if gpu else None,
        tools=tools,
        limits=other.pop("limits", {"cpus": 16, "memory_bytes": 64 * GIB}),
        **other,
    )


def axes(candidate: Candidate) -> set[str]:
    return {rejection.axis for rejection in candidate.rejections}


def of(found: Resolution, file: str) -> Candidate:
    (candidate,) = (each for each in found.candidates if each.file == file)
    return candidate


def name(version: str, label: str, python: str = "cp312", machine: str = "x86_64", package: str = "flash_attn") -> str:
    return f"{package}-{version}+{label}-{python}-{python}-linux_{machine}.whl"


NEWEST = "2.8.3.post1"


@pytest.mark.parametrize(
    ("here", "asked", "chosen"),
    [
        (environment("2.6.0+cu124"), "flash-attn", name("2.7.4.post1", "cu12torch2.6cxx11abiFALSE")),
        (environment("2.6.0+cu126"), "flash-attn", name(NEWEST, "cu12torch2.6cxx11abiTRUE")),
        (environment("2.7.1+cu128"), "flash-attn", name(NEWEST, "cu12torch2.7cxx11abiTRUE")),
        (environment("2.8.0+cu128"), "flash-attn", name(NEWEST, "cu12torch2.8cxx11abiTRUE")),
        (environment(python="cp313"), "flash-attn", name(NEWEST, "cu12torch2.8cxx11abiTRUE", "cp313")),
        (environment("2.9.1+cu128"), "flash-attn", name("2.8.3", "cu12torch2.9cxx11abiTRUE")),
        (environment("2.10.0+cu130"), "flash_attn", name("2.8.3", "cu13torch2.10cxx11abiTRUE")),
        (environment(gpu="10.0"), "flash-attn", name(NEWEST, "cu12torch2.8cxx11abiTRUE")),
        (environment(gpu="12.1"), "flash-attn", name(NEWEST, "cu12torch2.8cxx11abiTRUE")),
        (environment(gpu="8.6"), "fa2", name(NEWEST, "cu12torch2.8cxx11abiTRUE")),
        (environment("2.7.1+cu128"), "flash-attn<2.8.3", name("2.8.2", "cu12torch2.7cxx11abiTRUE")),
        # older than what 2.8 asks of glibc: the last release that was built on Ubuntu 20.04
        (environment("2.6.0+cu126", glibc="2.31"), "flash-attn", name("2.7.4.post1", "cu12torch2.6cxx11abiTRUE")),
        (
            environment(machine="aarch64"),
            "causal-conv1d",
            name("1.6.1.post4", "cu12torch2.8cxx11abiTRUE", machine="aarch64", package="causal_conv1d"),
        ),
        (
            environment(gpu="7.5"),
            "causal-conv1d",
            name("1.6.1.post4", "cu12torch2.8cxx11abiTRUE", package="causal_conv1d"),
        ),
        (
            environment("2.10.0+cu130"),
            "mamba",
            name("2.3.2.post1", "cu13torch2.10cxx11abiTRUE", package="mamba_ssm"),
        ),
        (environment("2.13.0+cu130"), "flash-attn-4", "flash_attn_4-4.0.0b27-py3-none-any.whl"),
        (environment("2.9.1+cu128"), "xformers", "xformers==0.0.33.post2 (cu128)"),
        (environment("2.8.0+cu128"), "xformers", "xformers==0.0.32.post2 (cu128)"),
        (environment("2.6.0+cu124"), "xformers", "xformers==0.0.29.post3 (cu124)"),
        (environment("2.13.0+cu130", "cp313t"), "xformers", "xformers==0.0.35 (cu130)"),
    ],
)
def test_the_wheel_that_fits(here, asked, chosen):
    found = resolve(here, asked)
    assert found.verdict == "fits"
    assert found.chosen is not None
    assert found.chosen.file == chosen
    assert not found.chosen.rejections


@pytest.mark.parametrize(
    ("here", "file", "reasons"),
    [
        (environment("2.6.0+cu124"), name(NEWEST, "cu12torch2.6cxx11abiTRUE"), {"abi"}),
        # FALSE on the label, the new ABI inside: built with torch 2.6.0+cu126
        (environment("2.6.0+cu124"), name(NEWEST, "cu12torch2.6cxx11abiFALSE"), {"abi", "broken"}),
        (environment("2.6.0+cu126"), name("2.7.4.post1", "cu12torch2.6cxx11abiFALSE"), {"abi"}),
        (environment(), name(NEWEST, "cu12torch2.7cxx11abiTRUE"), {"torch"}),
        (environment(), name("2.8.3", "cu13torch2.9cxx11abiTRUE"), {"torch", "cuda"}),
        (environment(), name(NEWEST, "cu12torch2.8cxx11abiTRUE", "cp311"), {"python"}),
        (environment(python="cp313t"), name(NEWEST, "cu12torch2.8cxx11abiTRUE", "cp313"), {"python"}),
        (environment(machine="aarch64"), name(NEWEST, "cu12torch2.8cxx11abiTRUE"), {"platform"}),
        (environment(glibc="2.31"), name(NEWEST, "cu12torch2.8cxx11abiTRUE"), {"glibc"}),
        (environment(gpu="7.5"), name(NEWEST, "cu12torch2.8cxx11abiTRUE"), {"gpu"}),
        # nvcc 12.4 made 2.7.4.post1, which knows no Blackwell
        (environment("2.6.0+cu124", gpu="10.0"), name("2.7.4.post1", "cu12torch2.6cxx11abiFALSE"), {"gpu"}),
        (environment("2.13.0+cpu"), name(NEWEST, "cu12torch2.8cxx11abiTRUE"), {"torch", "cuda"}),
        (environment(None), name(NEWEST, "cu12torch2.8cxx11abiTRUE"), {"torch"}),
        (environment(codes=("sm_80", "sm_90"), gpu="12.0"), name(NEWEST, "cu12torch2.8cxx11abiTRUE"), {"gpu"}),
    ],
)
def test_why_a_wheel_is_not_it(here, file, reasons):
    assert axes(of(resolve(here, "flash-attn"), file)) == reasons


@pytest.mark.parametrize(
    ("here", "asked", "verdict", "said"),
    [
        (environment("2.13.0+cu130"), "flash-attn", "no-wheel", "built for torch 2.10, here is 2.13.0+cu130"),
        (environment("2.9.1+cu128", "cp311"), "flash-attn", "no-wheel", "built for torch 2.8, here is 2.9.1+cu128"),
        (environment(python="cp314"), "flash-attn", "no-wheel", "built for cp313, this is cp314"),
        (environment(machine="aarch64"), "flash-attn", "no-wheel", "built for linux_x86_64, this is linux_aarch64"),
        (environment(gpu="7.5"), "flash-attn", "cannot-run-here", "holds code for sm_75"),
        (environment("2.13.0+cpu", gpu=""), "flash-attn", "cannot-run-here", "torch is built without CUDA"),
        (environment("2.13.0+cpu"), "flash-attn", "no-wheel", "2.13.0+cpu is built without CUDA"),
        (environment(gpu=""), "flash-attn", "cannot-run-here", "no NVIDIA GPU is here"),
        (environment(None), "flash-attn", "no-wheel", "no torch is here"),
        (environment(gpu="8.0"), "flash-attn-3", "cannot-run-here", "no kernels for sm_80"),
        (environment("2.9.1+cu128"), "flash-attn-3", "no-wheel", "no wheels of its own project"),
        (environment(gpu="7.5"), "flash-attn-4", "cannot-run-here", "no kernels for sm_75"),
        (environment(python="cp39"), "flash-attn-4", "no-wheel", "needs Python >=3.10, this is 3.9"),
        (environment("2.13.0+cpu"), "fa4", "no-wheel", "2.13.0+cpu is built without CUDA"),
        (environment("2.6.0+cu124", "cp313"), "xformers", "no-wheel", "no release of xFormers is for what is here"),
        (environment(machine="aarch64"), "xformers", "no-wheel", "no release of xFormers is for what is here"),
        (environment(gpu=""), "xformers", "cannot-run-here", "no NVIDIA GPU is here"),
        (environment(), "flash-attn>=3", "no-wheel", "no release of FlashAttention 2 in the table is >=3"),
    ],
)
def test_when_none_fits_the_reason_is_said(here, asked, verdict, said):
    found = resolve(here, asked)
    assert (found.verdict, found.chosen) == (verdict, None)
    assert said in found.summary


def test_a_wheel_built_on_a_newer_glibc_is_chosen_with_a_caution():
    found = resolve(environment("2.6.0+cu124", glibc="2.28"), "flash-attn")
    assert found.chosen is not None
    assert "built where glibc is 2.31, newer than 2.28 here" in found.chosen.cautions[0]


def test_an_unknown_gpu_is_a_caution_not_a_reason():
    here = msgspec.structs.replace(environment(), gpus=(Gpu(index=0, name="a GPU"),))
    found = resolve(here, "flash-attn")
    assert found.verdict == "fits"
    assert found.chosen is not None
    assert "compute capability could not be read" in found.chosen.cautions[0]


def known_by_metadata(version: str) -> Environment:
    """A torch whose own files cannot be read."""
    package = Package(name="torch", version=version)
    return msgspec.structs.replace(environment(), torch=None, packages={"torch": package})


def test_a_torch_known_by_its_metadata_only():
    found = resolve(known_by_metadata("2.8.0"), "flash-attn")
    assert found.verdict == "fits"
    assert found.chosen is not None
    assert "CUDA that torch 2.8.0 was built for could not be read" in found.chosen.cautions[0]
    assert resolve(known_by_metadata("2.8.0+cu128"), "flash-attn").chosen.cautions == ()
    assert "2.8.0+cpu is built without CUDA" in resolve(known_by_metadata("2.8.0+cpu"), "flash-attn").summary
    assert resolve(known_by_metadata("not a version"), "flash-attn").summary.startswith("no torch is here")


def test_all_that_were_considered_are_listed_the_nearest_first():
    found = resolve(environment("2.13.0+cu130"), "flash-attn")
    counts = [len(candidate.rejections) for candidate in found.candidates]
    assert counts == sorted(counts)
    assert all(counts)
    assert len({candidate.file for candidate in found.candidates}) == len(counts) > 200


def test_what_is_installed_and_how_old_the_table_is():
    here = environment(packages={"flash-attn": Package(name="flash-attn", version="2.5.0")})
    found = resolve(here, "flash-attn")
    assert found.installed == "2.5.0"
    assert "the table was read on" in found.notes[0]
    assert any("2.8.3.post2" in note for note in found.notes)


@pytest.mark.parametrize("asked", ["nonsense", "flash-attn==", "", "--for"])
def test_a_package_without_a_table(asked):
    with pytest.raises(UnknownPackage):
        resolve(environment(), asked)


@pytest.mark.parametrize("python", ["pp310", "", "cp3", None])
def test_an_interpreter_of_another_kind_finds_no_wheel(python):
    assert resolve(environment(python=python), "flash-attn").verdict == "no-wheel"
    assert resolve(environment(python=python), "flash-attn-4").verdict in ("fits", "no-wheel")


def test_another_torch_says_what_it_moves():
    here = environment(
        "2.13.0+cu130",
        packages={
            "torchvision": Package(name="torchvision", version="0.28.0", requires=("torch==2.13.0",)),
            "vllm": Package(name="vllm", version="0.30.0", requires=("torch==2.13.0",)),
            "peft": Package(name="peft", version="0.21", requires=("torch>=1.13.0",)),
        },
        extensions=(Extension(file="x/_C.so", package="x"), Extension(file="y/_C.so", package="y", stable_abi=True)),
    )
    way = resolve(here, "flash-attn").ways[0]
    assert way.kind == "another-torch"
    assert way.commands["pip"].startswith(
        "/env/bin/python -m pip install --index-url https://download.pytorch.org/whl/cu130 torch==2.10.0 && "
        "/env/bin/python -m pip install https://github.com/Dao-AILab/flash-attention/releases/download/v2.8.3/"
    )
    assert "known from public reports only" in way.cost
    assert way.moves == (
        "torch 2.13.0+cu130 → 2.10.0",
        "torchvision 0.28.0 → the one that belongs to torch 2.10.0",
        "vllm 0.30.0 requires torch==2.13.0 and would be broken",
        "compiled against the torch that is here: x",
    )


def test_another_torch_has_code_for_the_gpu_and_a_cuda_that_the_driver_supports():
    blackwell = resolve(environment("2.6.0+cu124", gpu="12.0"), "flash-attn").ways[0]
    assert "torch==2.7.1" in blackwell.commands["pip"]
    old_driver = resolve(environment("2.13.0+cu130", driver="12.4"), "flash-attn").ways[0]
    assert "/cu128 torch==2.9.1" in old_driver.commands["pip"]
    assert resolve(environment(python="cp314"), "flash-attn").ways[0].kind == "source"


def test_another_torch_for_a_package_on_its_index():
    found = resolve(environment("2.6.0+cu124", "cp313", gpu="12.0", driver="12.8"), "xformers")
    assert found.ways[0].commands["uv"] == (
        "uv pip install --python /env/bin/python --index-url https://download.pytorch.org/whl/cu128 "
        "torch==2.7.1 xformers==0.0.31.post1"
    )
    rejected = {candidate.file: axes(candidate) for candidate in found.candidates}
    assert rejected["xformers==0.0.29.post3 (cu124)"] == {"python"}
    assert rejected["xformers==0.0.31.post1 (cu118)"] == {"torch", "cuda"}


def test_a_build_from_source():
    here = environment(
        "2.13.0+cu130",
        python="cp314",
        tools={"nvcc": Tool(name="nvcc", version="12.4", path="/usr/bin/nvcc"), "g++": Tool(name="g++", version="12")},
        packages={n: Package(name=n, version="1") for n in ("packaging", "psutil", "setuptools", "wheel")},
    )
    way = next(way for way in resolve(here, "flash-attn").ways if way.kind == "source")
    assert way.commands["pip"] == (
        "FLASH_ATTENTION_FORCE_BUILD=TRUE MAX_JOBS=7 FLASH_ATTN_CUDA_ARCHS=90 "
        "/env/bin/python -m pip install --no-build-isolation --no-cache-dir flash-attn"
    )
    assert way.missing == (
        "nvcc of CUDA 13 (torch here has 13.0): /usr/bin/nvcc is 12.4",
        "ninja: /env/bin/python -m pip install ninja; without ninja one file is compiled at a time, for hours",
    )
    assert way.minutes is not None
    assert way.minutes[0] < way.minutes[1]
    assert "estimate" in way.cost
    assert way.sources


@pytest.mark.parametrize(
    ("limits", "jobs"),
    [
        ({"cpus": 64, "memory_bytes": 64 * GIB}, 7),
        ({"cpus": 8, "memory_bytes": 512 * GIB}, 4),
        ({"cpus": 64, "container_cpus": 2.5, "memory_bytes": 512 * GIB}, 1),
        ({"cpus": 2, "container_cpus": 32.0, "memory_bytes": 512 * GIB}, 1),
        ({"cpus": 1, "memory_bytes": 4 * GIB}, 1),
        ({"cpus": 64}, 1),
        ({}, 1),
    ],
)
def test_the_number_of_jobs_fits_memory_and_cores(limits, jobs):
    ways = resolve(environment(python="cp314", limits=limits), "flash-attn").ways
    (line,) = (way.commands["pip"] for way in ways if way.kind == "source")
    assert f" MAX_JOBS={jobs} " in line


def test_a_torch_whose_headers_the_released_sources_cannot_compile():
    ways = resolve(environment("2.14.0+cu130", gpu="12.0"), "flash-attn").ways
    (way,) = (way for way in ways if way.kind == "source")
    assert way.commands["uv"].endswith("'flash-attn @ git+https://github.com/Dao-AILab/flash-attention'")
    assert "FLASH_ATTN_CUDA_ARCHS=120 " in way.commands["uv"]
    assert way.missing[0] == "nvcc of CUDA 13 (torch here has 13.0): none found"


def test_blackwell_needs_a_compiler_that_knows_it():
    ways = resolve(environment(python="cp314", gpu="12.0"), "flash-attn").ways
    (way,) = (way for way in ways if way.kind == "source")
    assert way.missing[0] == "nvcc of CUDA 12 (torch here has 12.8), at least 12.8: none found"


def test_a_pinned_version_is_built_in_that_version():
    ways = resolve(environment(), "flash-attn==2.7.4.post1").ways
    (way,) = (way for way in ways if way.kind == "source")
    assert way.commands["pip"].endswith(" flash-attn==2.7.4.post1")


@pytest.mark.parametrize(
    ("here", "asked", "kinds"),
    [
        (environment(), "flash-attn", ["wheel"]),
        (environment(gpu=""), "flash-attn", ["elsewhere", "torch"]),
        (environment("2.6.0+cu124", "cp313"), "xformers", ["another-torch"]),
        (environment("2.13.0+cpu"), "xformers", ["another-torch"]),
        (environment(machine="aarch64"), "xformers", []),
        (environment(gpu=""), "xformers", ["elsewhere"]),
        (environment("2.13.0+cpu", gpu=""), "flash-attn", ["torch"]),
        (environment("2.13.0+cpu"), "flash-attn", ["another-torch", "torch"]),
        (environment("2.13.0+cu130"), "flash-attn", ["another-torch", "source", "torch", "hub"]),
        (environment(gpu="7.5"), "flash-attn", ["torch"]),
        (environment("2.9.1+cu128"), "flash-attn-3", ["index", "source", "torch", "hub"]),
        (environment("2.8.0+cu128"), "flash-attn-3", ["source", "torch", "hub"]),
        (environment(gpu="8.0"), "flash-attn-3", ["torch"]),
        (environment(python="cp314"), "causal-conv1d", ["source"]),
        (environment(codes=("sm_80", "sm_90"), gpu="12.0"), "flash-attn", ["another-torch"]),
    ],
)
def test_the_ways(here, asked, kinds):
    assert [way.kind for way in resolve(here, asked).ways] == kinds


def test_lines_for_conda_only_where_there_is_a_conda():
    assert "conda" not in resolve(environment(), "flash-attn").ways[0].commands
    conda = environment(packages={"numpy": Package(name="numpy", version="2", installer="conda")})
    line = resolve(conda, "flash-attn").ways[0].commands["conda"]
    assert line.startswith("conda run --no-capture-output -p /env python -m pip install https://github.com/")
    assert "%2Bcu12torch2.8" in line
