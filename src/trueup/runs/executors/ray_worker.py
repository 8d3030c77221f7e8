"""What a worker of a Ray cluster does for one run. It is sent there by value, and needs the standard library only."""

from __future__ import annotations

import io
import os
import shutil
import signal
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from trueup.runs.executors.keeping import TOKEN, Keeper

GPU_VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
POLL = 0.2
"""Seconds between two looks whether Ray cancels the task; a system call that waits does not notice."""
ENDING = 25.0
"""Seconds for the keeper to end its command."""
BEFORE = 20.0
"""Seconds for what is left here of earlier tries, whose keepers know that they are alone, to go by itself."""


def make_run(task: dict[str, Any], place: dict[str, Any], shipment: dict[str, bytes] | None) -> dict[str, Any]:
    """Make the run of a Task in a process of its own.

    `place`: what its starter has: `mark`, a file by which its disk is known; `python`, `entries`, `environment`,
    `token`, `before`, the tokens of earlier tries, and `gpus`, whether Ray chose GPUs for this run. `shipment`: tar
    files `trueup` and `tree` for a machine with another disk. The answer holds `elsewhere` where it was needed and
    missing; else `told`, what the keeper told, and `files`, a tar of the run's folder, where the starter cannot see it.
    """
    _end(place["before"], BEFORE)
    environment = {**place["environment"], TOKEN: place["token"]}
    if place["gpus"]:
        environment.update({name: os.environ[name] for name in GPU_VARIABLES if name in os.environ})
    same_python = os.access(place["python"], os.X_OK)
    python = place["python"] if same_python else sys.executable
    entries = place["entries"] if same_python else [entry for entry in sys.path if entry]
    if os.path.exists(place["mark"]):
        return {"told": _kept(python, [*place["entries"][:1], *entries], task, environment)}
    if shipment is None:
        return {"elsewhere": True}
    folder = tempfile.mkdtemp(prefix="trueup-probe-")
    try:
        for name, content in shipment.items():
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                archive.extraction_filter = getattr(tarfile, "fully_trusted_filter", None)  # it holds links to anywhere
                archive.extractall(os.path.join(folder, name))
        copied = os.path.join(folder, "tree", *os.listdir(os.path.join(folder, "tree")))
        moved = {**task, "out": os.path.join(folder, "out"), "copied": copied}
        told = _kept(python, [os.path.join(folder, "trueup"), *entries], moved, environment)
        return {"told": told, "files": _packed(os.path.join(folder, "out"))}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _kept(python: str, entries: list[str], task: dict[str, Any], environment: dict[str, str]) -> dict[str, Any] | None:
    """What the keeper tells. It is no child of this process, whose children Ray kills when it ends the worker."""
    keeper = Keeper(python, entries, task, environment, detached=True)
    try:
        while not keeper.wait(POLL):
            pass
    except BaseException:
        keeper.ask_to_end()
        keeper.wait(ENDING)
        raise
    if keeper.told is None:
        _end([environment[TOKEN]], 0)
    return keeper.told


def _end(tokens: list[str], patience: float) -> None:
    """Wait for the end of all processes here that carry one of these tokens; kill them when it takes too long."""
    deadline = time.monotonic() + patience
    while (left := list(_carrying(tokens))) and time.monotonic() < deadline + 5:
        for pid in left if time.monotonic() >= deadline else ():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.1)


def _carrying(tokens: list[str]) -> Iterator[int]:
    """From the files of Linux; elsewhere nothing is found. Of a process that has ended the environment is empty."""
    wanted = {f"{TOKEN}={token}".encode() for token in tokens}
    for name in os.listdir("/proc") if wanted and os.path.isdir("/proc") else ():
        try:
            with open(f"/proc/{int(name)}/environ", "rb") as file:
                if wanted.intersection(file.read().split(b"\0")):
                    yield int(name)
        except (OSError, ValueError):
            continue


def _packed(folder: str) -> bytes:
    content = io.BytesIO()
    if os.path.isdir(folder):
        with tarfile.open(fileobj=content, mode="w:gz") as archive:
            archive.add(folder, arcname=".")
    return content.getvalue()
