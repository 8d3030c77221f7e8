"""What the names of symbols tell: whose they are, which std::string they use, whether they are of the stable ABI."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from trueup.environment.demangling import demangled
from trueup.environment.ladder import ladder

StringAbi = Literal["cxx11", "old", "none"]

MARKS = (b"3c10", b"2at", b"5torch", b"4c10d", b"6caffe2", b"torch_", b"THP")
"""Some of these bytes stand in the string table of every file that asks for a symbol of torch."""
OF_TORCH = re.compile(
    r"_Z(?:T[VIST]|GV)?(?:N[KVRO]*|(?:ls|rs|eq|ne)RSo)(?:K?)(?:3c10|4c10d|2at|5torch|6caffe2)"
    r"|(?:aoti_)?torch_\w|THP[A-Z]|c10_"
)
SHIM = re.compile(r"(?:aoti_)?torch_\w")
"""C functions of https://github.com/pytorch/pytorch/tree/main/torch/csrc/stable, kept from release to release."""
OF_TORCH_CUDA = re.compile(r"_Z(?:T[VIST]|GV)?N[KVRO]*(?:3c104cuda|2at4cuda)")
OF_PYTHON = re.compile(r"_?Py[A-Z_]")
CUDA_LIBRARIES = (
    ("cublasLt", "libcublasLt"),
    ("cublas", "libcublas"),
    ("cudnn", "libcudnn"),
    ("cufft", "libcufft"),
    ("curand", "libcurand"),
    ("cusolver", "libcusolver"),
    ("cusparseLt", "libcusparseLt"),
    ("cusparse", "libcusparse"),
    ("nccl", "libnccl"),
    ("nvrtc", "libnvrtc"),
    ("nvtx", "libnvToolsExt"),
    ("nvjpeg", "libnvjpeg"),
    ("__cuda", "libcudart"),
    ("cuda", "libcudart"),
    ("cu", "libcuda.so"),
)
"""Start of a name, followed by a capital letter → the library that defines it."""


def of_torch(name: str) -> bool:
    """Whether one of torch's own libraries defines the symbol."""
    return OF_TORCH.match(name) is not None


def of_python(name: str) -> bool:
    return OF_PYTHON.match(name) is not None


def cuda_library(name: str) -> str | None:
    """Start of the file name of the CUDA library that defines the symbol; None for a symbol of anything else."""
    if of_torch(name):
        # Names with `cuda` in them that a CPU-only torch has, or had, are in the ladder of its CPU libraries.
        if OF_TORCH_CUDA.match(name):
            return "libc10_cuda" if "3c104cuda" in name else "libtorch_cuda"
        return "libtorch_cuda" if re.search("cuda|nccl", name, re.IGNORECASE) and not known(name) else None
    for start, library in CUDA_LIBRARIES:
        rest = name.removeprefix(start)
        if rest != name and (rest[:1].isupper() or start == "__cuda"):
            return library
    return None


def known(name: str) -> bool:
    """Whether some release of torch lacked the symbol and another had it."""
    return any(name in names for names in ladder().spans.values())


def string_abi(names: Iterable[str]) -> StringAbi:
    """The std::string in the signatures of torch's functions among `names`."""
    found: StringAbi = "none"
    for name in filter(of_torch, names):
        if "__cxx11" in name or "B5cxx11" in name:
            return "cxx11"
        if "Ss" in name and found == "none" and "std::string" in demangled(name):
            found = "old"
    return found


def is_stable(names: Iterable[str]) -> bool:
    """Whether all that is asked of torch are the C functions that it keeps from release to release."""
    asked = list(filter(of_torch, names))
    return bool(asked) and all(map(SHIM.match, asked))


def shown(names: Iterable[str]) -> Iterator[str]:
    """Names for people, each once, in order."""
    return iter(dict.fromkeys(map(demangled, names)))
