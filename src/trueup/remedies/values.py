"""Values of environment variables that depend on the machine: found when a run with the remedy starts."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from trueup.environment.host import Host, names_in
from trueup.environment.limits import limits
from trueup.environment.toolchain import gcc_version, located

Value = Literal["free-port", "inductor-cache", "triton-cache", "cxx-compiler", "network-interface", "build-jobs"]
"""Kinds of values."""

OLDEST_GCC = 9
"""GCC with the C++17 that Inductor's code uses."""
LEAST_FREE = 100 * 1000**2
"""Bytes that a folder of compiled code takes, at the least."""
BYTES_PER_BUILD_JOB = 5 * 1000**3
"""Host memory of one nvcc job of flash-attn."""


def value(kind: Value, variables: Mapping[str, str]) -> str | None:
    """The value on this machine, for a job with these variables; None where the machine has nothing of the kind."""
    host = Host(variables=variables)
    if kind == "free-port":
        return str(free_port())
    if kind == "inductor-cache":
        return _cache_folder(host, "torchinductor")
    if kind == "triton-cache":
        return _cache_folder(host, "triton")
    if kind == "cxx-compiler":
        return cxx_compiler(host)
    if kind == "network-interface":
        return network_interface(host)
    memory = limits(host).get("memory_bytes")
    return str(max(1, memory // BYTES_PER_BUILD_JOB)) if isinstance(memory, int) else None


def free_port() -> int:
    """A port of this machine that nothing listens on at this moment."""
    with socket.socket(socket.AF_INET6 if socket.has_ipv6 else socket.AF_INET) as bound:
        bound.bind(("", 0))
        port: int = bound.getsockname()[1]
    return port


def _cache_folder(host: Host, name: str) -> str | None:
    for parent in _cache_parents(host):
        folder = parent / f"trueup-{os.getuid()}" / name
        if _is_usable(folder):
            return str(folder)
    return None


def _cache_parents(host: Host) -> Iterator[Path]:
    if host.variables.get("XDG_CACHE_HOME"):
        yield host.expanded(host.variables["XDG_CACHE_HOME"])
    yield host.home / ".cache"
    yield Path(tempfile.gettempdir())
    yield Path("/var/tmp")
    yield host.folder / ".trueup" / "cache"


def _is_usable(folder: Path) -> bool:
    """Whether code can be written there and loaded from there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        state = os.statvfs(folder)
    except OSError:
        return False
    return not state.f_flag & getattr(os, "ST_NOEXEC", 0) and state.f_bavail * state.f_frsize >= LEAST_FREE


def cxx_compiler(host: Host) -> str | None:
    """The path of a C++ compiler on PATH, or in the usual folders, that compiles what Inductor writes."""
    everywhere = os.pathsep.join(
        folder for folder in (host.variables.get("PATH"), "/usr/local/bin", "/usr/bin") if folder
    )
    search = Host(variables={**host.variables, "PATH": everywhere}, folder=host.folder)
    prefix = Path(host.variables.get("CONDA_PREFIX") or "/usr")
    names = ("g++", *(f"g++-{major}" for major in range(16, OLDEST_GCC - 1, -1)), "x86_64-conda-linux-gnu-g++")
    for name in names:
        path = located(search, name, prefix)
        version = None if path is None else gcc_version(Path(os.path.realpath(path)))
        major = (version or "").partition(".")[0]
        if path is not None and major.isdigit() and int(major) >= OLDEST_GCC:
            return str(path)
    clang = located(search, "clang++", prefix)
    return None if clang is None else str(clang)


def network_interface(host: Host) -> str | None:
    """The interface of the default route, else one that is up, the loopback last.

    https://www.kernel.org/doc/Documentation/networking/proc_net_route.txt
    """
    for line in (host.text("/proc/net/route") or "").splitlines()[1:]:
        words = line.split()
        if len(words) > 1 and words[1] == "00000000":
            return words[0]
    names = sorted(names_in(host.path("/sys/class/net")), key=lambda name: name == "lo")
    running = [name for name in names if (host.text(f"/sys/class/net/{name}/operstate") or "").strip() != "down"]
    return running[0] if running else None
