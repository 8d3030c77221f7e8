"""The files that the constraints were read in."""

from __future__ import annotations

from trueup.attention.constraints import Evidence, Source

HEADER = "torch/include/ATen/native/transformers/sdp_utils_cpp.h"
NATIVE = "https://github.com/pytorch/pytorch/blob/{commit}/aten/src/ATen/native/transformers/{file}"
CPU = NATIVE.format(commit="02315a42ce3ea4b67cbecac2696552f95f24fec8", file="sdp_utils_cpp.cpp")
CUDA = NATIVE.format(commit="001f694aef6f922b4fdf6d27d59162d27bf3df58", file="cuda/sdp_utils.cpp")
FLASH_2 = "https://github.com/Dao-AILab/flash-attention/blob/v{release}/csrc/flash_attn/flash_api.cpp#L{line}"
FLASH_2_PYTHON = "https://github.com/Dao-AILab/flash-attention/blob/v{release}/flash_attn/flash_attn_interface.py"
COMMIT = "0251105a"
FLASH_3 = "https://github.com/Dao-AILab/flash-attention/blob/" + COMMIT + "/hopper/flash_api.cpp#L{line}"
FLASH_3_PYTHON = "https://github.com/Dao-AILab/flash-attention/blob/" + COMMIT + "/hopper/flash_attn_interface.py"
FLASH_3_BUILD = "https://github.com/Dao-AILab/flash-attention/blob/" + COMMIT + "/hopper/setup.py"
FLASH_4 = "https://github.com/Dao-AILab/flash-attention/blob/" + COMMIT + "/flash_attn/cute/interface.py#L{line}"
XFORMERS = "https://github.com/facebookresearch/xformers/blob/v0.0.34/xformers/ops/fmha/{file}"


def header(name: str, line: int, evidence: Evidence = "read") -> Source:
    """A check of torch 2.13, in a header that its wheels hold."""
    return Source(where=f"{HEADER}:{line} ({name})", of="torch 2.13", evidence=evidence)


def header_run(name: str, line: int) -> Source:
    """One that was run on a CPU."""
    return header(name, line, "run")


def cpu(name: str) -> Source:
    return Source(where=f"{CPU} ({name})", of="torch main, 2026; run on 2.13", evidence="run")


def cuda(name: str) -> Source:
    """A check that compiled GPU code makes. The copy read is a little newer than torch 2.13."""
    return Source(where=f"{CUDA} ({name})", of="torch main, 2026")


def installed(file: str, line: int, of: str, evidence: Evidence = "read") -> Source:
    return Source(where=f"{file}:{line}", of=of, evidence=evidence)


def page(url: str, of: str, evidence: Evidence = "read") -> Source:
    return Source(where=url, of=of, evidence=evidence)


def flash_2(line: int, release: str = "2.8.3") -> Source:
    return Source(where=FLASH_2.format(release=release, line=line), of=f"flash-attn {release}")


def flash_3(line: int) -> Source:
    return Source(where=FLASH_3.format(line=line), of=f"flash-attn-3, {COMMIT}")


def flash_4(line: int) -> Source:
    return Source(where=FLASH_4.format(line=line), of=f"flash-attn-4, {COMMIT}")


def xformers(file: str) -> Source:
    return Source(where=XFORMERS.format(file=file), of="xformers 0.0.34")
