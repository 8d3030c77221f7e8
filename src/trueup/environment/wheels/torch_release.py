"""What the official builds of torch for Linux are like: string ABI, and the address of a CUDA build."""

from __future__ import annotations

from packaging.version import Version

INDEX = "https://download.pytorch.org/whl"

SOURCES = (
    "https://github.com/pytorch/pytorch/issues/152790",
    "https://github.com/Dao-AILab/flash-attention/issues/1644",
)


def default_string_abi(torch: Version, build: str | None, machine: str | None) -> str:
    """`cxx11` or `old`: all Linux builds are new from 2.7 on; of 2.6 those for CUDA 12.6 and those for aarch64."""
    if torch.release[:2] >= (2, 7):
        return "cxx11"
    newer_of_2_6 = machine == "aarch64" or (build is not None and int(build) >= 126)
    return "cxx11" if torch.release[:2] == (2, 6) and newer_of_2_6 else "old"


def serves(torch: Version, build: str, capability: tuple[int, int]) -> bool | None:
    """Whether an official build holds code for a GPU; None where the release is not known to differ.

    Blackwell came with CUDA 12.8, first built for torch 2.7."""
    if capability[0] >= 10:
        return torch.release[:2] >= (2, 7) and int(build) >= 128
    return None


def index_of(build: str) -> str:
    """The address of torch's own index for one CUDA build."""
    return f"{INDEX}/cu{build}"
