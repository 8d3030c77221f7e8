"""Compilers, CUDA toolkits and system libraries with their versions, read from files. None of them is run."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import msgspec

from trueup.environment.byte_ranges import head_of, opened
from trueup.environment.host import Host, names_in, text_of
from trueup.schema.environment import Tool

ON_PATH = ("g++", "gcc", "clang++", "clang", "c++", "cc", "ninja", "cmake", "ld", "uv", "mpirun")
LARGEST_LOADER_CACHE = 1 << 24
LIBRARY_FOLDERS = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")
RELEASE = re.compile(rb"release (\d+\.\d+), V(\d+\.\d+\.\d+)")
GLIBC = re.compile(rb"GNU C Library [^\n\0]{0,80}?version (\d+\.\d+)")
CUDA_VERSION = re.compile(r"#define\s+(?:CUDA_VERSION|CUDART_VERSION)\s+(\d+)")
CUDA_FOLDER = re.compile(r"cuda-(\d+\.\d+)")
TRAILING_VERSION = re.compile(r"-(\d+(?:\.\d+)*)$")
GCC = re.compile(r"(?:^|-)(?:g\+\+|gcc|c\+\+|cc)(?:-[\d.]+)?$")
CMAKE = re.compile(r"cmake-(\d+\.\d+)")
TRITON_LIBRARY = "library that triton links"
TRITON_LINKS = re.compile(r"""(?:libraries\s*=\s*\[|-l)['"]?((?:lib)?cuda(?:\.so\.1)?)['"]?\W""")
DRIVER_LIBRARY = re.compile(rb"/[^\0\n]{1,400}/libcuda\.so(?:\.1)?(?=\0)")
UNREGISTERED = (
    "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/wsl/lib", "/.singularity.d/libs", "/opt/nvidia/lib64",
    "/run/opengl-driver/lib", "/home/bin", "/usr/lib/x86_64-linux-gnu", "/usr/lib64",
)  # fmt: skip
"""Where containers, WSL and NixOS put the driver's library without telling the loader's cache."""


def tools(host: Host, prefix: Path, machine: str | None, packages: Iterable[Path]) -> dict[str, Tool]:
    """Name → tool. `packages` are the environment's package folders, for the assemblers that Triton brings along."""
    found = {name: tool for name in ON_PATH if (tool := _on_path(host, name, prefix)) is not None}
    for name, variable in (("CXX", "CXX"), ("CC", "CC")):
        chosen = host.variables.get(variable, "").split()
        if chosen and (tool := _on_path(host, chosen[0], prefix)) is not None:
            found[name] = tool
    found |= _cuda(host, prefix)
    found |= _libraries(host, machine)
    found |= _triton(packages)
    return found


def _on_path(host: Host, name: str, prefix: Path) -> Tool | None:
    path = located(host, name, prefix)
    return None if path is None else Tool(name=name, version=_version_of(path), path=str(path))


def located(host: Host, name: str, prefix: Path) -> Path | None:
    """Where a command is found on PATH, or in the environment, whose folder activation puts there."""
    if os.sep in name:
        path = host.expanded(name)
        return path if _is_command(path) else None
    folders = [folder for folder in host.variables.get("PATH", "").split(os.pathsep) if folder]
    for folder in (*folders, str(prefix / "bin")):
        command = os.path.join(folder, name)
        if _is_command(command):
            return Path(command)
    return None


def _is_command(path: str | Path) -> bool:
    return os.access(path, os.X_OK) and os.path.isfile(path)


def _version_of(path: Path) -> str | None:
    real = Path(os.path.realpath(path))
    if "clang" in real.name:
        named = TRAILING_VERSION.search(real.name) or re.search(r"llvm-(\d+)", str(real))
        return named[1] if named else None
    if GCC.search(real.name):
        return gcc_version(real)
    if real.name == "cmake":
        shared = (CMAKE.fullmatch(name) for name in names_in(real.parent.parent / "share"))
        return _last(named[1] for named in shared if named)
    return None


def gcc_version(real: Path) -> str | None:
    """From the name (`g++-12`), else from the folder in which each GCC keeps its own parts, `lib/gcc/<machine>/12`."""
    named = TRAILING_VERSION.search(real.name)
    if named:
        return named[1]
    own = real.parent.parent / "lib" / "gcc"
    return _last(name for machine in names_in(own) for name in names_in(own / machine) if name[:1].isdigit())


def _last(versions: Iterable[str]) -> str | None:
    """The highest of these versions."""
    return max(versions, key=lambda version: [int(part) for part in re.findall(r"\d+", version)], default=None)


def _cuda(host: Host, prefix: Path) -> dict[str, Tool]:
    """nvcc, the toolkit that torch's extension builder would take, and the others that are installed."""
    found = {}
    version_of = cache(toolkit_version)  # of one toolkit by several names; its header is a megabyte
    nvcc = located(host, "nvcc", prefix)
    homes = list(_toolkits(host))
    if nvcc is not None:
        nvcc = _behind_script(nvcc)
        found["nvcc"] = Tool(name="nvcc", version=version_of(nvcc.parent.parent), path=str(nvcc))
    if (ptxas := located(host, "ptxas", prefix)) is not None:
        found["ptxas"] = Tool(name="ptxas", version=embedded_release(ptxas), path=str(ptxas))
    chosen = _chosen_home(host, nvcc, homes)
    if chosen is not None:
        has_compiler = _is_command(chosen / "bin" / "nvcc")
        found["cuda toolkit"] = Tool(
            name="cuda toolkit" if has_compiler else "cuda toolkit without nvcc",
            version=version_of(chosen),
            path=str(chosen),
        )
    for home in homes:
        version = version_of(home)
        if version and chosen is not None and os.path.realpath(home) != os.path.realpath(chosen):
            found.setdefault(f"cuda toolkit {version}", Tool(name="cuda toolkit", version=version, path=str(home)))
    return found


def _toolkits(host: Host) -> Iterator[Path]:
    local = host.path("/usr/local")
    for name in names_in(local):
        if name == "cuda" or CUDA_FOLDER.fullmatch(name):
            yield local / name


def _chosen_home(host: Host, nvcc: Path | None, homes: list[Path]) -> Path | None:
    """In the order of torch.utils.cpp_extension: CUDA_HOME, CUDA_PATH, the nvcc on PATH, /usr/local/cuda."""
    given = host.variables.get("CUDA_HOME") or host.variables.get("CUDA_PATH")
    if given:
        return Path(given)
    if nvcc is not None:
        return nvcc.parent.parent
    return next((home for home in homes if home.name == "cuda"), None)


def toolkit_version(home: Path) -> str | None:
    """`12.4` of the toolkit in this folder, from what each release keeps there."""
    try:
        said = msgspec.json.decode(text_of(home / "version.json") or "")
        written = str(said["cuda"]["version"])
    except (msgspec.DecodeError, KeyError, TypeError):
        written = (text_of(home / "version.txt") or "").removeprefix("CUDA Version ").strip()
    if found := re.match(r"\d+\.\d+", written):
        return found.group()
    for header in ("include/cuda.h", "include/cuda_runtime_api.h", "targets/x86_64-linux/include/cuda_runtime_api.h"):
        defined = CUDA_VERSION.search(text_of(home / header) or "")
        if defined:
            return f"{int(defined[1]) // 1000}.{int(defined[1]) % 1000 // 10}"
    named = CUDA_FOLDER.fullmatch(Path(os.path.realpath(home)).name)
    return named[1] if named else None


def _behind_script(nvcc: Path) -> Path:
    """The nvcc that a small shell script on PATH hands over to, as some images have."""
    real = Path(os.path.realpath(nvcc))
    try:
        head = head_of(real, 2048)
    except OSError:
        return real
    if head.startswith(b"#!") and (named := re.search(rb"(/\S+/bin/nvcc)\b", head)):
        return Path(os.fsdecode(named[1]))
    return real


def embedded_release(binary: Path) -> str | None:
    """`12.8` from the text `release 12.8, V12.8.93` that NVIDIA's tools print as their version and so contain."""
    found = _search(binary, RELEASE)
    return found[1].decode() if found else None


def _search(file: Path, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
    try:
        with opened(file) as binary, mmap.mmap(binary.fileno(), 0, access=mmap.ACCESS_READ) as text:
            found = pattern.search(text)
            return pattern.search(found.group()) if found else None  # a match must not outlive the mapping
    except (OSError, ValueError):
        return None


def _libraries(host: Host, machine: str | None) -> dict[str, Tool]:
    """glibc, libstdc++ and the driver's library."""
    found = {}
    folders = [host.path(f"/{base}/{machine}-linux-gnu") for base in ("lib", "usr/lib") if machine]
    folders += [host.path(folder) for folder in LIBRARY_FOLDERS]
    libc = next((folder / "libc.so.6" for folder in folders if (folder / "libc.so.6").is_file()), None)
    if libc is not None:
        said = _search(libc, GLIBC)
        found["glibc"] = Tool(name="glibc", version=said[1].decode() if said else None, path=str(libc))
    cxx = next((folder / "libstdc++.so.6" for folder in folders if (folder / "libstdc++.so.6").exists()), None)
    if cxx is not None:
        full = os.path.basename(os.path.realpath(cxx))  # libstdc++.so.6.0.30 offers GLIBCXX_3.4.30
        number = full.removeprefix("libstdc++.so.6.0.")
        version = f"3.4.{number}" if number.isdigit() else None
        found["libstdc++"] = Tool(name="libstdc++", version=version, path=str(cxx))
    return found | _driver_library(host)


def _driver_library(host: Host) -> dict[str, Tool]:
    """libcuda as the loader's cache knows it, and where it stands without being in the cache."""
    try:
        cache = head_of(host.path("/etc/ld.so.cache"), LARGEST_LOADER_CACHE)
    except OSError:
        cache = b""
    registered = [Path(os.fsdecode(path)) for path in DRIVER_LIBRARY.findall(cache)]
    registered = [path for path in registered if host.path(path).exists()]
    found: dict[str, Tool] = {}
    for path in registered:
        found.setdefault(path.name, Tool(name=path.name, path=str(path)))
    if not found:
        given = [entry for entry in host.variables.get("LD_LIBRARY_PATH", "").split(os.pathsep) if entry]
        for folder in (*given, *UNREGISTERED):
            if host.path(f"{folder}/libcuda.so.1").exists():
                found["libcuda.so.1 outside of the loader's cache"] = Tool(
                    name="libcuda.so.1 outside of the loader's cache", path=f"{folder}/libcuda.so.1"
                )
                break
    return found


def _triton(packages: Iterable[Path]) -> dict[str, Tool]:
    """The `ptxas` inside Triton and the second one for Blackwell, and which name of the driver's library it links."""
    found: dict[str, Tool] = {}
    for folder in packages:
        for source in ("triton/backends/nvidia/driver.py", "triton/common/build.py"):
            linked = TRITON_LINKS.search(text_of(folder / source) or "")
            if linked and TRITON_LIBRARY not in found:
                library = linked[1] if ".so" in linked[1] else f"lib{linked[1]}.so"
                found[TRITON_LIBRARY] = Tool(name=library, path=str(folder / source))
        for place in ("triton/backends/nvidia/bin", "triton/common/../third_party/cuda/bin"):
            for name in ("ptxas", "ptxas-blackwell"):
                path = folder / place / name
                if path.is_file():
                    found.setdefault(
                        f"triton {name}", Tool(name=f"triton {name}", version=embedded_release(path), path=str(path))
                    )
    return found
