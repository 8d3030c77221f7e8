"""What the machine and its container allow: memory, processors, shared memory, open files."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

from trueup.environment.host import Host

UNLIMITED = 1 << 60
"""cgroup v1 writes a number near 2^63 for `no limit`."""


def limits(host: Host) -> dict[str, Any]:
    """Bytes, counts and names; a limit that there is not, or that cannot be read, is left out."""
    found: dict[str, Any] = {
        "machine_memory_bytes": _meminfo(host, "MemTotal"),
        "available_memory_bytes": _meminfo(host, "MemAvailable"),
        "container_memory_bytes": _cgroup_memory(host),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "container_cpus": _cgroup_cpus(host),
        "container": _container(host),
        "shm_bytes": _size(host.path("/dev/shm")),
        "open_files": _soft(resource.RLIMIT_NOFILE),
        "processes": _soft(resource.RLIMIT_NPROC),
        "stack": _soft(resource.RLIMIT_STACK),
        "locked_memory": _soft(getattr(resource, "RLIMIT_MEMLOCK", None)),
    }
    memory = [found[name] for name in ("machine_memory_bytes", "container_memory_bytes") if found[name]]
    found["memory_bytes"] = min(memory) if memory else None
    return {name: value for name, value in found.items() if value is not None}


def _meminfo(host: Host, name: str) -> int | None:
    for line in (host.text("/proc/meminfo") or "").splitlines():
        words = line.split()
        if words and words[0] == f"{name}:" and len(words) > 1 and words[1].isdigit():
            return int(words[1]) * 1024
    return None


def _cgroup_memory(host: Host) -> int | None:
    """The lowest limit on the way from this process's group to the root. In a container the root is its own group."""
    found = []
    for folder in _groups(host, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            text = (host.text(folder / name) or "").strip()
            if text.isdigit() and 0 < int(text) < UNLIMITED:
                found.append(int(text))
    return min(found) if found else None


def _cgroup_cpus(host: Host) -> float | None:
    found = []
    for folder in _groups(host, "cpu"):
        words = (host.text(folder / "cpu.max") or "").split()
        if not words:
            words = [(host.text(folder / f"cpu.cfs_{part}_us") or "").strip() for part in ("quota", "period")]
        if len(words) == 2 and all(word.isdigit() and int(word) > 0 for word in words):
            found.append(int(words[0]) / int(words[1]))
    return min(found) if found else None


def _groups(host: Host, controller: str) -> list[Path]:
    """The control groups of this process for one controller, version 2 and 1, each with all above it."""
    folders: list[Path] = []
    for line in (host.text("/proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if names == "":
            bases = [Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")]
        elif controller in names.split(","):
            bases = [Path("/sys/fs/cgroup") / controller, Path("/sys/fs/cgroup") / names]
        else:
            continue
        group = Path(path.lstrip("/"))
        folders += [base / part for base in bases for part in (group, *group.parents)]
    return list(dict.fromkeys(folders))


def _container(host: Host) -> str | None:
    """The kind of container that this runs in, None when there is no sign of one."""
    variables = host.variables
    if variables.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    if variables.get("APPTAINER_CONTAINER") or variables.get("SINGULARITY_CONTAINER"):
        return "apptainer"
    if host.path("/run/.containerenv").exists():
        return "podman"
    if host.path("/.dockerenv").exists():
        return "docker"
    for name in ("kubepods", "docker", "containerd", "lxc"):
        if f"/{name}" in (host.text("/proc/1/cgroup") or ""):
            return "kubernetes" if name == "kubepods" else name
    return "wsl" if "microsoft" in (host.text("/proc/version") or "").lower() else None


def _size(path: Path) -> int | None:
    try:
        state = os.statvfs(path)
    except OSError:
        return None
    return state.f_blocks * state.f_frsize


def _soft(limit: int | None) -> int | None:
    """The limit in force; None for none."""
    if limit is None:
        return None
    soft, _ = resource.getrlimit(limit)
    return None if soft == resource.RLIM_INFINITY else soft
