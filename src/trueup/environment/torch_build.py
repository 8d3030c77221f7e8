"""What the installed torch is, read from its files: it need not be whole, nor be one that can be imported."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

from trueup.environment import elf
from trueup.environment.byte_ranges import Unreadable, read_bytes
from trueup.environment.fatbin import gpu_architectures
from trueup.environment.host import names_in, text_of
from trueup.environment.scope import torch_libraries
from trueup.environment.symbols import StringAbi
from trueup.schema.environment import Torch

WRITTEN = {"__version__", "cuda", "hip", "git_version", "debug"}
"""Names in `torch/version.py`, which the build of torch writes."""
DISTRIBUTION = re.compile(r"torch-(\d[^-]*)\.dist-info")
CHECKS: tuple[tuple[bytes, StringAbi], ...] = (
    (b"_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", "cxx11"),
    (b"_ZN3c106detail14torchCheckFailEPKcS2_jRKSs", "old"),
)
"""The function behind TORCH_CHECK, in libc10 of every release, with the std::string that the build uses."""
COMPILED_FOR = re.compile(rb"(?<![^\0])((?:(?:sm|compute)_\d+[af]?)(?: (?:sm|compute)_\d+[af]?)*)(?=\0)")
"""What `torch.cuda.get_arch_list()` returns, a constant in libtorch_python."""


def torch_folder(folders: Iterable[Path]) -> Path | None:
    """The folder of the package torch, the first on the search path that holds any of its files."""
    for folder in folders:
        found = folder / "torch"
        if any((found / name).exists() for name in ("__init__.py", "version.py", "lib")):
            return found
    return None


def torch_facts(folder: Path) -> Torch | None:
    """The build of the torch in `folder`; None when no file tells its version."""
    written = assigned(text_of(folder / "version.py") or "")
    version = text(written.get("__version__")) or recorded_version(folder.parent)
    if version is None:
        return None
    libraries = torch_libraries(folder)
    debug = written.get("debug")
    return Torch(
        version=version,
        cuda=text(written.get("cuda")),
        hip=text(written.get("hip")),
        git=text(written.get("git_version")),
        string_abi=string_abi(libraries.get("libc10.so")),
        debug=debug if isinstance(debug, bool) else None,
        gpu_architectures=architectures(libraries) if written.get("cuda") or "libtorch_cuda.so" in libraries else (),
        libraries=tuple(libraries),
    )


def assigned(source: str) -> dict[str, object]:
    """The constants that a module assigns to the names of `WRITTEN`; empty when it is no Python."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    values: dict[str, object] = {}
    for statement in body:
        targets = statement.targets if isinstance(statement, ast.Assign) else ()
        if isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        for target in targets:
            value = getattr(statement, "value", None)
            if isinstance(target, ast.Name) and target.id in WRITTEN and isinstance(value, ast.Constant):
                values[target.id] = value.value
    return values


def recorded_version(packages: Path) -> str | None:
    """By the folder of metadata that an installer left."""
    return next((match[1] for name in names_in(packages) if (match := DISTRIBUTION.fullmatch(name))), None)


def string_abi(library: Path | None) -> StringAbi | None:
    if library is None:
        return None
    try:
        file = elf.read(library)
        return next((abi for symbol, abi in CHECKS if file.defines(symbol)), None)
    except Unreadable:
        return None


def architectures(libraries: dict[str, Path]) -> tuple[str, ...]:
    """What torch was compiled for as it says itself, else of what the CUDA library holds code for."""
    try:
        file = elf.read(libraries["libtorch_python.so"])
        section = file.section(b".rodata")
        if section is not None:
            found = COMPILED_FOR.findall(read_bytes(file.path, section.offset, section.size))
            if found:  # names of single architectures may stand beside the list
                return tuple(max(found, key=len).decode().split(" "))
    except (Unreadable, KeyError):
        pass
    try:
        return gpu_architectures(elf.read(libraries["libtorch_cuda.so"]))
    except (Unreadable, KeyError):
        return ()


def text(value: object) -> str | None:
    return value if isinstance(value, str) else None
