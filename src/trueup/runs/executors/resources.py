"""What each run may take of a machine: `CPU=2,GPU=1`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from trueup.runs.executors.executor import ExecutorError


def resources_of(text: str) -> dict[str, float]:
    """Name → amount of `NAME=AMOUNT,...`; the names of CPUs and GPUs in capitals. Raises ExecutorError."""
    found: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, amount = (word.strip() for word in part.partition("="))
        name = name.upper() if name.lower() in ("cpu", "gpu") else name
        try:
            found[name] = float(amount)
        except ValueError:
            found[name] = -1.0
        if not name or not 0 <= found[name] < float("inf"):
            raise ExecutorError(f"{part!r} is no amount of a resource; write for example CPU=2,GPU=1")
    return found


def cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def visible_gpus(variables: Mapping[str, str], devices: Path = Path("/dev")) -> tuple[str, ...]:
    """NVIDIA GPUs that a job would see, as CUDA_VISIBLE_DEVICES names them."""
    said = variables.get("CUDA_VISIBLE_DEVICES")
    if said is not None:
        return tuple(filter(None, (name.strip() for name in said.split(","))))
    numbers = (path.name.removeprefix("nvidia") for path in devices.glob("nvidia[0-9]*"))
    return tuple(map(str, range(sum(number.isdigit() for number in numbers))))
