"""Writing edited copies of files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from trueup.edits.changes import ConflictError, merged
from trueup.edits.files import read, written
from trueup.schema.fixing import Edit, Step


def apply(edits: Iterable[Edit], folder: Path, into: Path | None = None) -> tuple[Path, ...]:
    """Write the files of `folder` with `edits` into `into`, `folder` itself by default: a copy of the user's files.

    Returns what was written. Raises ConflictError when edits contradict each other or the files are not those that
    they were made of, before anything is written; OSError when a file cannot be written.
    """
    of_file: dict[str, list[Edit]] = {}
    for edit in edits:
        of_file.setdefault(edit.path, []).append(edit)
    texts = {path: merged(read(folder / path), several) for path, several in of_file.items()}
    target = folder if into is None else into
    for path, text in texts.items():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        written(target / path, text)
    return tuple(target / path for path in texts)


def write_copies(recipe: Iterable[Step], folder: Path, into: Path) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Write the files of `folder` with all changes of a recipe into `into`, another folder.

    Returns the files, and a sentence for each step that contradicts an earlier one and for each file that is there and
    holds something else, which stays. Raises OSError.
    """
    done: list[Edit] = []
    left: list[str] = []
    for step in recipe:
        try:
            for path in {edit.path for edit in step.edits}:
                merged(read(folder / path), (edit for edit in (*done, *step.edits) if edit.path == path))
            done += step.edits
        except ConflictError as error:
            left.append(f"{step.remedy} is not in the copies, make it by hand: {error}")
    of_file = {path: [edit for edit in done if edit.path == path] for path in {edit.path: None for edit in done}}
    for path, edits in of_file.items():
        if not _may_be_written(into / path, merged(read(folder / path), edits)):
            left.append(f"{into / path} is there and holds something else, so it stays: choose another folder")
            done = [edit for edit in done if edit.path != path]
    return apply(done, folder, into), tuple(left)


def _may_be_written(file: Path, text: str) -> bool:
    """Whether nothing is there but perhaps the same text."""
    if not file.is_file():
        return not os.path.lexists(file)
    try:
        return read(file) == text
    except (OSError, UnicodeDecodeError):
        return False
