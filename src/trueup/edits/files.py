"""Which files may be edited, and their text as it is: line ends are kept."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

LARGEST = 1 << 20
"""Bytes beyond which a file was not written by a person."""
GENERATED = re.compile(r"@generated|do not edit|automatically generated|auto-generated", re.IGNORECASE)
FOREIGN = frozenset({"site-packages", "dist-packages", ".venv", "venv", "node_modules", ".trueup", ".git"})


class NotEditableError(Exception):
    """A file that is not edited; the message says why."""


def editable(folder: Path, path: str) -> str:
    """The text of a file of the job's own.

    Raises NotEditableError when it lies outside of `folder` or in an environment, or was written by a program.
    """
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or FOREIGN.intersection(pure.parts):
        raise NotEditableError(f"{path} is not a file of the job's own")
    file = folder / path
    if not file.is_file() or not file.resolve().is_relative_to(folder.resolve()):
        raise NotEditableError(f"{path} is not in the job's folder")
    if file.stat().st_size > LARGEST:
        raise NotEditableError(f"{path} is too large to be written by hand")
    try:
        text = read(file)
    except (OSError, UnicodeDecodeError) as error:
        raise NotEditableError(f"{path} cannot be read") from error
    if GENERATED.search("\n".join(text.splitlines()[:10])):
        raise NotEditableError(f"{path} was written by a program")
    return text


def read(file: Path) -> str:
    """The text with its own line ends."""
    with file.open(encoding="utf-8", newline="") as stream:
        return stream.read()


def written(file: Path, text: str) -> None:
    """Write `text` with its own line ends."""
    with file.open("w", encoding="utf-8", newline="") as stream:
        stream.write(text)
