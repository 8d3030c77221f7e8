"""Writing edited copies of files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from trueup.edits.changes import merged
from trueup.edits.files import read, written
from trueup.schema.fixing import Edit


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
