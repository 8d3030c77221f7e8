"""What the driver's own tool says, asked while files are read, and never waited for longer than agreed."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trueup.environment.host import Host

if TYPE_CHECKING:
    from subprocess import Popen

PATIENCE_S = 4.0
"""Without persistence mode the driver is loaded first, which takes seconds on machines of 8 GPUs."""

FIELDS = ("index", "name", "uuid", "memory.total", "memory.used", "driver_version", "mig.mode.current", "compute_cap")
"""`nvidia-smi --help-query-gpu`; `compute_cap` came with driver 495 and is left out for an older tool."""

BESIDE_PATH = ("/usr/bin/nvidia-smi", "/usr/lib/wsl/lib/nvidia-smi", "/opt/bin/nvidia-smi")


class Question(msgspec.Struct):
    """A call of nvidia-smi that is under way."""

    process: Popen[bytes]
    deadline: float

    def answer(self) -> tuple[str | None, str]:
        """Its output and what went wrong; the output is None when it failed or took too long."""
        import subprocess

        try:
            output, errors = self.process.communicate(timeout=max(0.0, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            return None, f"nvidia-smi gave no answer within {PATIENCE_S:g} s"
        said = output.decode("utf-8", "replace")
        if self.process.returncode:
            complaint = (said + errors.decode("utf-8", "replace")).strip().splitlines()
            return None, f"nvidia-smi: {complaint[0] if complaint else f'exit code {self.process.returncode}'}"
        return said, ""


def tool(host: Host, not_in: Path) -> Path | None:
    """nvidia-smi of this machine; one inside the environment that is looked at is never run."""
    folders = [folder for folder in host.variables.get("PATH", "").split(os.pathsep) if folder]
    for path in (*(Path(folder) / "nvidia-smi" for folder in folders), *map(host.path, BESIDE_PATH)):
        if not_in not in path.parents and os.access(path, os.X_OK) and path.is_file():
            return path
    return None


def ask(smi: Path, *arguments: str) -> Question | str:
    """Start a call. A string says why it could not be started."""
    import subprocess

    try:
        process = subprocess.Popen(
            [str(smi), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except OSError as error:
        return f"nvidia-smi cannot be started: {error.strerror}"
    return Question(process, time.monotonic() + PATIENCE_S)


def ask_for_gpus(smi: Path, fields: tuple[str, ...] = FIELDS) -> Question | str:
    """Ask for one line of comma-separated values a GPU."""
    return ask(smi, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits")


def rows(text: str, fields: tuple[str, ...] = FIELDS) -> list[dict[str, str]]:
    """The answer by field; what the tool puts in brackets, `[N/A]`, `[Not Supported]`, is left out."""
    found = []
    for line in text.splitlines():
        values = [value.strip() for value in line.split(",")]
        if len(values) == len(fields):
            found.append({name: value for name, value in zip(fields, values, strict=True) if value and value[0] != "["})
    return found


def slices(text: str) -> dict[str, tuple[str, ...]]:
    """UUID of a GPU → UUIDs of its MIG devices, from `nvidia-smi -L`."""
    found: dict[str, list[str]] = {}
    devices: list[str] = []
    for line in text.splitlines():
        uuid = line.rpartition("UUID:")[2].strip().rstrip(")")
        if line.startswith("GPU "):
            devices = found.setdefault(uuid, [])
        elif uuid.startswith("MIG-"):
            devices.append(uuid)
    return {gpu: tuple(devices) for gpu, devices in found.items()}
