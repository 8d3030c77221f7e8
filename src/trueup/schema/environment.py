"""What is installed and attached, as read from files: the facts that `doctor` judges.

`None` means that a fact could not be read, never that the thing is absent; absence is an empty tuple or `False`.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Package(msgspec.Struct, frozen=True, kw_only=True):
    """An installed distribution, from its `.dist-info` folder."""

    name: str
    """Normalised: lower case, dashes."""
    version: str
    requires: tuple[str, ...] = ()
    location: str = ""
    installer: str | None = None
    """`pip`, `uv`, `conda`, ..."""
    origin: str | None = None
    """Where it came from when not from an index: a wheel's file name, a folder, a URL without credentials."""


class Extension(msgspec.Struct, frozen=True, kw_only=True):
    """A compiled module of a package that links against torch."""

    file: str
    """Relative to the environment's site-packages."""
    package: str | None = None
    needed: tuple[str, ...] = ()
    """Shared libraries it asks for by name."""
    missing_libraries: tuple[str, ...] = ()
    """Those found neither in the environment nor on the system."""
    missing_symbols: tuple[str, ...] = ()
    """Strong undefined symbols that nothing it can reach defines, demangled."""
    missing_cuda_symbols: tuple[str, ...] = ()
    """Those of them that belong to a CUDA library which is not installed at all."""
    missing_versions: tuple[str, ...] = ()
    """Symbol versions asked for and not offered: `GLIBC_2.32`, `CXXABI_1.3.15`."""
    built_for_torch: str | None = None
    """Range of torch releases inferred from its symbols: `>=2.8,<2.10`."""
    string_abi: str | None = None
    """`cxx11`, `old` or `none` (uses no std::string of torch)."""
    stable_abi: bool = False
    python_tag: str | None = None
    """`cp311`, `abi3`, or None when the file name does not say."""
    gpu_architectures: tuple[str, ...] = ()
    """`sm_80`, `sm_90a`, `compute_90` (PTX), ... in the binary."""
    machine: str | None = None
    """`x86_64`, `aarch64`, ..."""


class Torch(msgspec.Struct, frozen=True, kw_only=True):
    version: str
    """With its local part: `2.13.0+cpu`."""
    cuda: str | None = None
    hip: str | None = None
    git: str | None = None
    string_abi: str | None = None
    debug: bool | None = None
    gpu_architectures: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    """Shared libraries in `torch/lib`."""


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    index: int
    name: str
    memory_bytes: int | None = None
    memory_used_bytes: int | None = None
    """By all processes at the time of looking."""
    compute_capability: str | None = None
    """`9.0`"""
    driver: str | None = None
    mig: bool | None = None
    uuid: str | None = None
    slices: tuple[str, ...] = ()
    """UUIDs of its MIG devices."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A compiler, toolkit or system library."""

    name: str
    """`nvcc`, `g++`, `ninja`, `glibc`, `libstdc++`, `ptxas`, ..."""
    version: str | None = None
    path: str | None = None


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration value or environment variable that touches the stack."""

    name: str
    value: str
    source: str
    """`environment`, or the file it stands in."""


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of one Python environment on one machine."""

    python: str | None = None
    """`3.11.7`"""
    python_tag: str | None = None
    executable: str | None = None
    prefix: str | None = None
    chosen_by: str | None = None
    """What made this environment the one to look at: `--python`, `VIRTUAL_ENV`, `PATH`, ..."""
    base_prefix: str | None = None
    """Prefix of the installation behind a virtual environment."""
    search_path: tuple[str, ...] = ()
    """Folders of packages, in the order in which Python searches them."""
    platform: str | None = None
    machine: str | None = None
    torch: Torch | None = None
    packages: dict[str, Package] = {}
    extensions: tuple[Extension, ...] = ()
    torch_headers: dict[str, str] = {}
    """Compiled module that lacks symbols → the folder of packages whose torch it was compiled with, where it tells."""
    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    driver_cuda: str | None = None
    """Newest CUDA that the driver supports."""
    tools: dict[str, Tool] = {}
    settings: tuple[Setting, ...] = ()
    folders: dict[str, dict[str, Any]] = {}
    """Purpose (`inductor cache`, `triton cache`, `shm`, `tmp`) → `path`, `writable`, `filesystem`, `free_bytes`, ..."""
    layer_classes: dict[str, dict[str, Any]] = {}
    """Class that an FSDP configuration wraps, as it is written there → `defined_in`, a file or None, and `alike`."""
    weights: dict[str, dict[str, Any]] = {}
    """Weight file in the working folder → `tensors`, their number, and `of_compiled_module`, a name or None."""
    limits: dict[str, Any] = {}
    """`memory_bytes`, `cpus`, `shm_bytes`, `open_files`, `locked_memory`, `stack`, `container`, ..."""
    interfaces: tuple[str, ...] = ()
    """Names of the network interfaces."""
    ports: dict[str, bool] = {}
    """Port that a launcher will use → taken."""
    notes: tuple[str, ...] = ()
    """What could not be read, and why."""
