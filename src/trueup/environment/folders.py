"""The folders that compilers, caches and processes write to: place, permissions, file system, free space."""

from __future__ import annotations

import getpass
import os
import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from trueup.environment.host import Host
from trueup.environment.mounts import Mount, mount_of, mounts

PATIENCE_S = 1.0
"""How long a file system may take to answer. A network one whose server is gone never does."""


def folders(host: Host) -> tuple[dict[str, dict[str, Any]], tuple[str, ...]]:
    """Purpose → facts of its folder, and what could not be read.

    `path`, `set_by` (variable, or `default`), `exists`, `writable` (of what exists nearest above), `owner` and `mode`
    where it exists and belongs to someone else, `filesystem`, `network`, `read_only`, `noexec`, `free_bytes`.
    """
    table = mounts(host)
    found: dict[str, dict[str, Any]] = {}
    notes = []
    asked = [(*place, started(partial(_of_folder, host.path(place[1])))) for place in _places(host)]
    for purpose, path, set_by, answer in asked:
        mount = mount_of(str(path), table)
        facts: dict[str, Any] = {"path": str(path), "set_by": set_by, **_of_mount(mount)}
        answered = answer()
        if answered is None:
            notes.append(f"{purpose} {path}: its file system gave no answer within {PATIENCE_S:g} s")
            facts["responds"] = False
        found[purpose] = facts | (answered or {})
    return found, tuple(notes)


def _places(host: Host) -> Iterator[tuple[str, Path, str]]:
    """Purpose, path, and what set it, by the rules of torch 2.13, Triton 3.x and huggingface_hub 1.x."""
    temporary = _temporary(host)
    yield from _first(host, "inductor cache", ("TORCHINDUCTOR_CACHE_DIR",), temporary / f"torchinductor_{_user(host)}")
    triton_home = host.expanded(host.variables.get("TRITON_HOME") or "~")
    yield from _first(host, "triton cache", ("TRITON_CACHE_DIR",), triton_home / ".triton" / "cache")
    cache = host.expanded(host.variables.get("XDG_CACHE_HOME") or "~/.cache")
    yield from _first(host, "torch extensions", ("TORCH_EXTENSIONS_DIR",), cache / "torch_extensions")
    yield from _first(host, "hugging face cache", ("HF_HOME",), cache / "huggingface")
    yield "shm", Path("/dev/shm"), "default"
    yield "tmp", temporary, next((name for name in ("TMPDIR", "TEMP", "TMP") if host.variables.get(name)), "default")


def _first(host: Host, purpose: str, names: tuple[str, ...], default: Path) -> Iterator[tuple[str, Path, str]]:
    for name in names:
        if host.variables.get(name):
            yield purpose, host.expanded(host.variables[name]), name
            return
    yield purpose, default, "default"


def _temporary(host: Host) -> Path:
    """As tempfile.gettempdir(), for the variables of the job."""
    for name in ("TMPDIR", "TEMP", "TMP"):
        if host.variables.get(name):
            return host.expanded(host.variables[name])
    return Path("/tmp")


def _user(host: Host) -> str:
    """As torch._inductor names its default folder: by the user, by the number of a user without a name."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        if host.variables.get(name):
            return re.sub(r'[\\/:*?"<>|]', "_", host.variables[name])
    try:
        return re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
    except (KeyError, OSError, ImportError):
        return f"uid_{os.getuid()}"


def _of_mount(mount: Mount | None) -> dict[str, Any]:
    if mount is None:
        return {}
    return {
        "filesystem": mount.filesystem,
        "network": mount.is_network,
        "read_only": "ro" in mount.options,
        "noexec": "noexec" in mount.options,
    }


def _of_folder(path: Path) -> dict[str, Any]:
    exists = path.is_dir()
    nearest = path
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    facts: dict[str, Any] = {
        "exists": exists,
        "writable": nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK),
        "nearest": str(nearest),
    }
    try:
        state = os.statvfs(nearest)
        facts |= {"free_bytes": state.f_bavail * state.f_frsize, "total_bytes": state.f_blocks * state.f_frsize}
        status = nearest.stat()
        if exists and status.st_uid != os.getuid():
            facts |= {"owner": status.st_uid, "mode": oct(status.st_mode & 0o7777)}
    except OSError:
        pass
    return facts


def started(look: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any] | None]:
    """Waits for what `look` returns; None when the file system keeps it waiting, and then its thread may wait on."""
    found: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: found.append(look()), daemon=True)
    thread.start()

    def answer() -> dict[str, Any] | None:
        thread.join(PATIENCE_S)
        return found[0] if found else None

    return answer
