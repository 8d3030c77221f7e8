"""Builds the stand-in's extension `flash_attn_2_cuda`, once for a Python, a torch and a source."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

SOURCE = Path(__file__).with_name("flash_attn_2_cuda.cpp")
MODULE = "flash_attn_2_cuda"


class CannotBuild(RuntimeError):
    """The extension cannot be built here; the message says what is missing."""


def built_extension(cache: Path | None = None) -> Path:
    """The built extension module, a file named for this interpreter.

    `cache` is the folder that keeps builds (default: TRUEUP_CACHE or the user's cache folder); processes that ask at
    the same time wait for one build. Raises CannotBuild without a compiler, headers or torch.
    """
    folder = (cache or default_cache()) / _key()
    extension = folder / f"{MODULE}{sysconfig.get_config_var('EXT_SUFFIX')}"
    if not extension.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder / "lock"):
            if not extension.exists():
                _build(extension)
    return extension


def default_cache() -> Path:
    """The folder of builds when none is named."""
    named = os.environ.get("TRUEUP_CACHE")
    if named:
        return Path(named) / "attention-on-cpu"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trueup" / "attention-on-cpu"


def _key() -> str:
    try:
        torch_version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        raise CannotBuild("the attention stand-in is built against torch, which is not installed here") from None
    texts = [file.read_text(encoding="utf-8") for file in (SOURCE, Path(__file__))]
    parts = [torch_version, str(sys.implementation.cache_tag), platform.machine(), *texts]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(extension: Path) -> None:
    compiler = os.environ.get("CXX") or next(filter(shutil.which, ("g++", "c++", "clang++")), None)
    if compiler is None:
        raise CannotBuild("the attention stand-in needs a C++ compiler: no g++, c++ or clang++ on PATH (or set CXX)")
    python_headers = Path(sysconfig.get_paths()["include"])
    if not (python_headers / "Python.h").exists():
        raise CannotBuild(f"the attention stand-in needs Python's headers: no Python.h in {python_headers}")
    with tempfile.TemporaryDirectory(dir=extension.parent) as work:
        made = Path(work) / extension.name
        options = [*_options(python_headers), *_threads(compiler)]
        command = [*compiler.split(), *options, str(SOURCE), "-o", str(made), *_libraries()]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise CannotBuild(f"the attention stand-in did not compile\n$ {' '.join(command)}\n{done.stderr[-4000:]}")
        made.replace(extension)


def _torch_folder() -> Path:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise CannotBuild("the attention stand-in is built against torch, which is not installed here")
    return Path(spec.origin).parent


def _options(python_headers: Path) -> list[str]:
    headers = _torch_folder() / "include"
    if not headers.is_dir():
        raise CannotBuild(f"the attention stand-in needs torch's headers: no folder {headers}")
    return [
        "-std=c++20",
        "-O2",
        "-fPIC",
        "-shared",
        "-DAT_PER_OPERATOR_HEADERS",  # the smallest headers that hold what is used: a build takes seconds
        f"-D_GLIBCXX_USE_CXX11_ABI={int(_cxx11_abi())}",
        *(f"-isystem{folder}" for folder in (headers, headers / "torch/csrc/api/include", python_headers)),
    ]


def _threads(compiler: str) -> list[str]:
    """OpenMP where it is the one that torch has loaded; a second one in the process would slow both down."""
    same = "g++" in Path(compiler.split()[0]).name and (_torch_folder() / "lib/libgomp.so.1").exists()
    return ["-fopenmp"] if same else []


def _cxx11_abi() -> bool:
    import torch

    return bool(torch.compiled_with_cxx11_abi())


def _libraries() -> list[str]:
    # Found by name when the module is loaded: torch, imported before, has loaded them.
    return [f"-L{_torch_folder() / 'lib'}", "-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"]
