"""What a process that has imported torch offers to a compiled module, and what the module lacks of that."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from trueup.environment import elf
from trueup.environment.byte_ranges import Unreadable
from trueup.environment.cache import Binary
from trueup.environment.gnu_hash import gnu_hash
from trueup.environment.host import Host
from trueup.environment.ladder import ladder
from trueup.environment.libraries import Asker, Libraries, by_file_name
from trueup.environment.shared_objects import SharedObject
from trueup.environment.symbols import cuda_library, is_stable, of_python, of_torch, shown, string_abi
from trueup.schema.environment import Extension

TORCH_LIBRARY = re.compile(r"lib(?:torch(?:_(?:cpu|python|cuda\w*|hip|xpu))?|c10(?:_\w+)?)\.so")
"""What extensions are linked to."""
CORE = ("libc10.so", "libtorch_cpu.so")
PYTHON_TAG = re.compile(r"\.(?:cpython-(\d+t?)-[^.]*|(abi3)|(pypy\d+)-[^.]*)\.so$")


class Scope:
    """`every`: all shared objects of the environment, of which packages may load some for their modules."""

    def __init__(self, host: Host, torch_folder: Path | None, executable: Path | None, every: Sequence[Path]) -> None:
        self._host, self._executable, self._every = host, executable, every
        self._torch_libraries = torch_libraries(torch_folder)
        self._answers: dict[str, bool] = {}
        self._hashes: dict[str, int] = {}

    def judged(self, module: SharedObject, binary: Binary) -> Extension:
        """The module with what it lacks here; nothing is said of what one for another machine lacks."""
        missing_libraries: tuple[str, ...] = ()
        missing: list[str] = []
        missing_cuda: list[str] = []
        versions: list[str] = []
        if self._machine in (None, binary.machine):
            asker = Asker(path=module.path, needed=binary.needed, rpath=binary.rpath, runpath=binary.runpath)
            closure, missing_libraries = self._libraries.closure(asker)
            missing = self._missing_symbols(module, binary, closure, complete=not missing_libraries)
            missing_cuda = [name for name in missing if self._lacks_cuda(name, closure)]
            versions = missing_versions(binary.versions_needed, closure)
        tag = PYTHON_TAG.search(module.path.name)
        return Extension(
            file=module.file,
            package=module.package,
            needed=binary.needed,
            missing_libraries=missing_libraries,
            missing_symbols=tuple(shown(missing)),
            missing_cuda_symbols=tuple(shown(missing_cuda)),
            missing_versions=tuple(versions),
            built_for_torch=ladder().built_for(binary.undefined),
            string_abi=string_abi(binary.undefined),
            stable_abi=is_stable(binary.undefined),
            python_tag=None if tag is None else tag[2] or tag[3] or f"cp{tag[1]}",
            gpu_architectures=binary.gpu_architectures,
            machine=binary.machine,
        )

    def _missing_symbols(
        self, module: SharedObject, binary: Binary, closure: Mapping[str, elf.Elf], complete: bool
    ) -> list[str]:
        """Names that nothing defines. Of names that a missing library may define, nothing is said."""
        unresolved = [name for name in binary.undefined if not self._defined(name, closure.values())]
        told = [name for name in unresolved if self._tells(name, complete)]
        if not told:
            return []
        beside = [library for library in self._beside(module) if library.path != module.path]
        return [name for name in told if not any(self._finds(library, name) for library in beside)]

    def _tells(self, name: str, complete: bool) -> bool:
        """Whether it means something that `name` was not found; `complete`: every library that is needed was."""
        if of_torch(name):
            return self._has_whole_torch
        if of_python(name):
            return self._python is not None
        return complete or (cuda_library(name) is not None and self._has_whole_torch)

    def _defined(self, name: str, closure: Iterable[elf.Elf]) -> bool:
        if name not in self._answers:
            self._answers[name] = any(self._finds(library, name) for library in self._base)
        return self._answers[name] or any(self._finds(library, name) for library in closure)

    def _finds(self, library: elf.Elf, name: str) -> bool:
        if name not in self._hashes:
            self._hashes[name] = gnu_hash(name.encode())
        try:
            return library.defines(name.encode(), self._hashes[name])
        except Unreadable:
            return False

    def _lacks_cuda(self, name: str, closure: Mapping[str, elf.Elf]) -> bool:
        library = cuda_library(name)
        if library is None:
            return False
        return not any(present.startswith(library) for present in (*closure, *self._torch_libraries))

    def _beside(self, module: SharedObject) -> list[elf.Elf]:
        """Libraries in the module's folder, which its package may load for it."""
        paths = (path for path in self._every if path.parent == module.path.parent)
        return [library for path in paths if (library := self._libraries.file(path)) is not None]

    @cached_property
    def _has_whole_torch(self) -> bool:
        """With torch gone, or half of it, missing symbols say nothing of the module."""
        return all(
            name in self._torch_libraries and self._libraries.file(self._torch_libraries[name]) is not None
            for name in CORE
        )

    @cached_property
    def _python(self) -> elf.Elf | None:
        if self._executable is None:
            return None
        try:
            return elf.read(Path(os.path.realpath(self._executable)))
        except Unreadable:
            return None

    @cached_property
    def _machine(self) -> str | None:
        """Of the interpreter, else of torch."""
        if self._python is not None:
            return self._python.machine
        for name in CORE:
            try:
                return elf.read(self._torch_libraries[name]).machine
            except (Unreadable, KeyError):
                continue
        return None

    @cached_property
    def _base(self) -> list[elf.Elf]:
        """Libraries that every module finds loaded: torch's, and the interpreter with its own."""
        paths = [path for name, path in self._torch_libraries.items() if TORCH_LIBRARY.match(name)]
        files = [library for path in paths if (library := self._libraries.file(path)) is not None]
        if self._python is not None:
            files += self._libraries.closure(Asker.of(self._python))[0].values()
            files.append(self._python)
        return list({file.path: file for file in files}.values())

    @cached_property
    def _libraries(self) -> Libraries:
        cuda = [path for path in self._every if "nvidia" in path.parts and path.parent.name == "lib"]
        return Libraries(
            self._host,
            self._machine or os.uname().machine,
            loaded=self._torch_libraries,
            preferred=by_file_name(cuda),
            others=by_file_name(self._every),
            program=None if self._python is None else Asker.of(self._python),
        )


def torch_libraries(torch_folder: Path | None) -> dict[str, Path]:
    """File name → path of the shared libraries in `torch/lib`."""
    if torch_folder is None:
        return {}
    try:
        return {path.name: path for path in sorted((torch_folder / "lib").iterdir()) if ".so" in path.name}
    except OSError:
        return {}


def missing_versions(needed: Mapping[str, Sequence[str]], closure: Mapping[str, elf.Elf]) -> list[str]:
    """Symbol versions that a library which is there does not offer."""
    missing: list[str] = []
    for name, versions in needed.items():
        if name in closure:
            try:
                offered = closure[name].versions_offered()
            except Unreadable:
                continue
            missing += [version for version in versions if offered and version not in offered]
    return missing
