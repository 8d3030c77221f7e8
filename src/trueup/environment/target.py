"""Which Python environment is looked at: found from files, never by starting a Python."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from trueup.environment.host import Host, names_in, text_of

CONFIGURATION = "pyvenv.cfg"
TOOL_MARKS = ("uv-receipt.toml", "pipx_metadata.json")
"""Files in the prefix of an environment that holds one command line tool and no job."""

SHIM_LONGEST = 4096


class TargetError(ValueError):
    """There is no Python environment where one was said to be."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A Python environment by its prefix."""

    prefix: Path
    executable: Path | None = None
    chosen_by: str = ""
    """Why this one: an option, a variable, the place on PATH."""
    configuration: Mapping[str, str] = {}
    """What `pyvenv.cfg` says; empty when the environment is no virtual one."""

    @property
    def is_virtual(self) -> bool:
        return bool(self.configuration)


def target_of(host: Host, *, python: str | None = None, folder: str | None = None) -> Target:
    """The environment of `--python` or `--env`, else the one that `python` means here. Raises TargetError."""
    if python is not None:
        return of_python(host, python, "--python")
    if folder is not None:
        return of_folder(host.expanded(folder), "--env")
    return _current(host)


def of_folder(folder: Path, chosen_by: str) -> Target:
    """The environment with this prefix, or the `.venv` or `venv` in this folder."""
    if not folder.is_dir():
        raise TargetError(f"{folder} is no folder; give the prefix of an environment, the folder that holds bin/")
    for prefix in (folder, folder / ".venv", folder / "venv"):
        if _is_prefix(prefix):
            return _target(prefix, _executable_in(prefix), chosen_by)
    raise TargetError(
        f"{folder} is no Python environment: it holds neither {CONFIGURATION} nor conda-meta nor lib/python3.*"
    )


def of_python(host: Host, python: str, chosen_by: str) -> Target:
    """The environment of an interpreter, given as a path or as a name on PATH."""
    found = _on_path(host, python) if os.sep not in python else host.expanded(python)
    if found is not None and found.is_dir():
        return of_folder(found, chosen_by)
    if found is None or not os.path.lexists(found):
        raise TargetError(f"there is no {python}" + ("" if os.sep in python else " on PATH"))
    for executable in _links(_behind_shim(host, found)):
        prefix = executable.parent.parent
        if (executable.parent / CONFIGURATION).is_file():  # PEP 405: beside the interpreter, or one folder up
            return _target(executable.parent, executable, chosen_by)
        if _is_prefix(prefix):
            return _target(prefix, executable, chosen_by)
    raise TargetError(f"{found} belongs to no Python environment: no {CONFIGURATION} or lib/python3.* near it")


def _current(host: Host) -> Target:
    """What `python` means to a user here. An environment made for the trueup command alone is not it."""
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        prefix = host.variables.get(variable)
        if prefix and _is_prefix(Path(prefix)):
            return _target(Path(prefix), _executable_in(Path(prefix)), variable)
    own = Path(sys.prefix)
    if not _holds_one_tool(own):
        return _target(own, Path(sys.executable) if sys.executable else None, "the environment of trueup")
    if _is_prefix(host.folder / ".venv"):
        return of_folder(host.folder / ".venv", "the working folder")
    for name in ("python", "python3"):
        found = _on_path(host, name, without=own)
        if found is not None:
            return of_python(host, str(found), "PATH")
    return _target(own, Path(sys.executable), "the environment of trueup, as there is no python on PATH")


def _target(prefix: Path, executable: Path | None, chosen_by: str) -> Target:
    return Target(
        prefix=prefix, executable=executable, chosen_by=chosen_by, configuration=configuration(prefix / CONFIGURATION)
    )


def configuration(file: Path) -> dict[str, str]:
    """The `key = value` lines of a `pyvenv.cfg`, keys in lower case."""
    pairs = (line.partition("=") for line in (text_of(file) or "").splitlines())
    return {key.strip().lower(): value.strip() for key, sign, value in pairs if sign}


def _is_prefix(folder: Path) -> bool:
    if (folder / CONFIGURATION).is_file() or (folder / "conda-meta").is_dir():
        return True
    return any(library_folders(folder))


def library_folders(prefix: Path) -> Iterator[Path]:
    """The folders of standard libraries under a prefix: `lib/python3.11`, `lib64/python3.11`, `lib/pypy3.10`."""
    for library in ("lib", "lib64"):
        for name in names_in(prefix / library):
            version = name.removeprefix("python").removeprefix("pypy")
            if version != name and version[:1].isdigit() and "." in version:
                yield prefix / library / name


def _executable_in(prefix: Path) -> Path | None:
    for name in ("python", "python3"):
        if os.path.lexists(prefix / "bin" / name):
            return prefix / "bin" / name
    return None


def _holds_one_tool(prefix: Path) -> bool:
    """True for environments that `uvx`, `uv tool` and `pipx` make."""
    in_cache = "uv" in prefix.parts and any(part.startswith(("archive-v", "environments-v")) for part in prefix.parts)
    return in_cache or any((prefix / mark).is_file() for mark in TOOL_MARKS)


def _on_path(host: Host, name: str, without: Path | None = None) -> Path | None:
    for folder in host.variables.get("PATH", "").split(os.pathsep):
        path = Path(folder) / name
        if not folder or (without is not None and path.parent.parent == without):
            continue
        if os.access(path, os.X_OK) and path.is_file():
            return path
    return None


def _links(path: Path) -> Iterator[Path]:
    """`path`, then what each symbolic link on the way to the file points to; circles end."""
    seen = set()
    while path not in seen:
        seen.add(path)
        yield path
        if not path.is_symlink():
            return
        path = Path(os.path.normpath(path.parent / os.readlink(path)))


def _behind_shim(host: Host, path: Path) -> Path:
    """The interpreter that a pyenv shim would start: a script in `shims/`, chosen as pyenv does, without running it."""
    if path.parent.name != "shims" or not (path.parent.parent / "versions").is_dir():
        return path
    root = path.parent.parent
    written = (text_of(folder / ".python-version") for folder in (host.folder, *host.folder.parents))
    named = host.variables.get("PYENV_VERSION", "").replace(":", " ")
    chosen = named or next(filter(None, written), None) or text_of(root / "version") or ""
    for version in chosen.split():
        found = root / "versions" / version / "bin" / path.name
        if found.is_file():
            return found
    return path
