"""The words of a launch command: the script that it starts, options with their values, and files that it names."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

SHELLS = frozenset({"sh", "bash", "dash", "zsh"})


def words(command: Sequence[str]) -> tuple[str, ...]:
    """The words of `command`; those of `sh -c '...'` are the ones within the quotes."""
    if len(command) >= 3 and PurePosixPath(command[0]).name in SHELLS and command[1].lstrip("-").endswith("c"):
        try:
            return tuple(shlex.split(command[2]))
        except ValueError:
            return ()
    return tuple(command)


def option(command: Sequence[str], *names: str) -> str | None:
    """The value of the last of these options, `--name value` or `--name=value`; a dash equals an underscore."""
    found: str | None = None
    wanted = {_plain(name) for name in names}
    for index, word in enumerate(command):
        name, sign, value = word.partition("=")
        if _plain(name) in wanted:
            found = value if sign else next(iter(command[index + 1 : index + 2]), None)
    return found


def with_option(command: Sequence[str], name: str, value: str) -> tuple[str, ...]:
    """`command` with another value of an option that it has; unchanged where it has not."""
    new = list(command)
    for index, word in enumerate(command):
        key, sign, _ = word.partition("=")
        if _plain(key) == _plain(name):
            if sign:
                new[index] = f"{key}={value}"
            elif index + 1 < len(command):
                new[index + 1] = value
    return tuple(new)


def script(command: Sequence[str], folder: Path) -> str | None:
    """The Python file that is started, relative to `folder`: `train.py`, or the file of `-m package.module`."""
    for index, word in enumerate(command):
        if word.endswith(".py") and (folder / word).is_file():
            return _relative(word, folder)
        if word == "-m" and index + 1 < len(command):
            path = command[index + 1].replace(".", "/")
            for file in (f"{path}.py", f"{path}/__main__.py", f"src/{path}.py"):
                if (folder / file).is_file():
                    return file
    return None


def shell_script(command: Sequence[str], folder: Path) -> str | None:
    """The shell script that is started: it holds the real launch command."""
    for word in command:
        if word.endswith((".sh", ".bash", ".slurm", ".sbatch")) and (folder / word).is_file():
            return _relative(word, folder)
    return None


def files(command: Sequence[str], folder: Path, *endings: str) -> tuple[str, ...]:
    """Files with one of these endings that the command names, alone or as the value of an option."""
    found = []
    for word in command:
        for part in dict.fromkeys((word, word.partition("=")[2])):
            if part.endswith(endings) and (folder / part).is_file():
                found.append(_relative(part, folder))
    return tuple(dict.fromkeys(found))


def shown(command: Sequence[str]) -> str:
    """The words as a line for a shell."""
    return shlex.join(command)


def _relative(word: str, folder: Path) -> str:
    path = Path(word)
    if not path.is_absolute():
        return PurePosixPath(word).as_posix()
    try:
        return path.resolve().relative_to(folder.resolve()).as_posix()
    except ValueError:
        return path.as_posix()


def _plain(name: str) -> str:
    return name.lstrip("-").replace("-", "_") if name.startswith("-") else ""
