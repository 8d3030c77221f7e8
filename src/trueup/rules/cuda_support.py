"""Which CUDA knows which GPU, and which driver runs which CUDA: tables of NVIDIA's documents."""

from __future__ import annotations

from packaging.version import Version

FIRST_CUDA = {
    (7, 0): "9.0",
    (7, 5): "10.0",
    (8, 0): "11.0",
    (8, 6): "11.1",
    (8, 7): "11.4",
    (8, 9): "11.8",
    (9, 0): "11.8",
    (10, 0): "12.8",
    (10, 3): "12.9",
    (11, 0): "13.0",
    (12, 0): "12.8",
    (12, 1): "12.9",
}
"""Compute capability → the first toolkit whose nvcc and ptxas know it.

https://docs.nvidia.com/cuda/archive/ (release notes of each toolkit), read 2026-11.
"""

OLDEST_DRIVER = {11: 450, 12: 525, 13: 580}
"""CUDA major → oldest driver branch that runs it, any minor of the same major included.

https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
"""


def first_cuda(capability: tuple[int, int] | None) -> Version | None:
    """The first CUDA for a GPU; None for one that the table does not know."""
    known = None if capability is None else FIRST_CUDA.get(capability)
    return Version(known) if known else None


def oldest_driver(cuda: str) -> int | None:
    """The oldest driver branch for a CUDA version; None for one that the table does not know."""
    major = cuda.partition(".")[0]
    return OLDEST_DRIVER.get(int(major)) if major.isdigit() else None
