"""What an out-of-memory message of torch says in numbers, in its wordings from torch 1.4 to 2.13."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from trueup.rules.log_facts import Mention, mentions
from trueup.schema.log import Log

MESSAGE = (
    r"(?:CUDA|HIP|XPU) out of memory\.? ?[^\n]*?Tried to allocate (?P<size>[\d.]+ "
    r"[KMGT]?i?B)(?P<rest>[^\n]*(?:\n[^\n]*){0,3})"
)
SIZE = r"([\d.]+) ([KMGT]?i?B|bytes)"
CONTEXT = 3 * 2**30
"""Bytes of a process beside what torch reserved: the context, the libraries' kernels, NCCL's buffers."""
UNITS = {"B": 1, "bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
GPU = re.compile(r"GPU (\d+)")
TOTAL = re.compile(rf"total capaci?ty of {SIZE}|{SIZE} total capacity")
"""torch 2.1 writes capacty."""
FREE = re.compile(rf"of which {SIZE} is free|{SIZE} free")
OTHER_PROCESS = re.compile(rf"(?<!this )[Pp]rocess (?P<pid>\d+) has {SIZE} memory in use")
OWN = re.compile(rf"this process has {SIZE} memory in use")
ALLOCATED = re.compile(rf"{SIZE} is allocated by PyTorch|{SIZE} already allocated")
UNALLOCATED = re.compile(rf"{SIZE} is reserved by PyTorch but unallocated")
RESERVED = re.compile(rf"{SIZE} reserved in total by PyTorch")


class OutOfMemory(msgspec.Struct, frozen=True):
    """One such message; None for what its wording does not tell. Sizes in bytes."""

    seen: Mention
    tried: float
    gpu: int | None
    total: float | None
    free: float | None
    own: float | None
    """In use by the process that failed, by torch and by other libraries."""
    others: dict[int, float]
    """Process id → bytes that it has in use."""
    allocated: float | None
    idle: float | None
    """Reserved by torch and not allocated."""

    @property
    def held_by_others(self) -> float | None:
        """Bytes of the device that neither this process nor nobody has."""
        if self.others:
            return sum(self.others.values())
        if self.total is None or self.free is None or self.own is None:
            return None
        return max(0.0, self.total - self.free - self.own)


def out_of_memory(log: Log) -> Iterator[OutOfMemory]:
    """All messages of a log, in its order."""
    for seen in mentions(log, MESSAGE):
        text = seen.found["rest"]
        allocated, reserved, idle = _bytes(ALLOCATED, text), _bytes(RESERVED, text), _bytes(UNALLOCATED, text)
        if idle is None and reserved is not None and allocated is not None:
            idle = max(0.0, reserved - allocated)
        gpu, total, own = GPU.search(text), _bytes(TOTAL, text), _bytes(OWN, text)
        others = {int(each["pid"]): _size(f"{each[2]} {each[3]}") for each in OTHER_PROCESS.finditer(text)}
        if own is None and allocated is not None:
            own = _taken_for_another(others, allocated + (idle or 0.0))
        yield OutOfMemory(
            seen=seen,
            tried=_size(seen.found["size"]),
            gpu=int(gpu[1]) if gpu else None,
            total=total,
            free=_bytes(FREE, text),
            own=_within(own, total) or reserved,
            others=others,
            allocated=allocated,
            idle=idle,
        )


def _bytes(pattern: re.Pattern[str], text: str) -> float | None:
    found = pattern.search(text)
    if not found:
        return None
    number, unit = [group for group in found.groups() if group][:2]
    return _size(f"{number} {unit}")


def _taken_for_another(processes: dict[int, float], reserved: float) -> float | None:
    """In a container the driver knows the process by the id of the host, and torch lists it among the others.

    The one that holds what torch reserved, and little more, is taken out of `processes`; its size, None without one.
    """
    fitting = {size - reserved: pid for pid, size in processes.items() if 0.99 * reserved <= size <= reserved + CONTEXT}
    return processes.pop(fitting[min(fitting)]) if fitting else None


def _within(size: float | None, total: float | None) -> float | None:
    """In containers that hide process ids, torch prints 17179869184 GiB for its own use."""
    return None if size is None or (total is not None and size > total) else size


def _size(text: str) -> float:
    number, _, unit = text.partition(" ")
    return float(number) * UNITS.get(unit, 1)
