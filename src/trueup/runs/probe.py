"""A probe: a run made to learn something, which must leave no trace in the user's files and trackers.

It runs in a copy of the working folder, at the same place in a tree whose other branches are links, so that relative
paths lead where they led. Small files are copied; large ones are links that `trueup_instrument.isolation` turns into
files of the copy when Python code writes to them.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

PROBE = "TRUEUP_PROBE"
"""Tells the instrument the folder of the probe."""
COPIED_BYTES = 1 << 20
"""A file up to this size is copied, a larger one is a link."""
COPIED_TOTAL = 256 << 20
"""Bytes of all files after which the rest are links, too."""
ENTRIES = 20_000
"""Files and folders of the working folder beyond which whole folders become links."""
SKIPPED = frozenset({".trueup", ".git", ".hg", "__pycache__", ".venv", "venv", ".mypy_cache", ".pytest_cache"})
"""Left out, but for virtual environments, which become links: a launch command may name one."""

LIMITS = (
    "files at absolute paths, uploads to hubs and stores, and what other programs than Python write are not kept apart",
)
"""What no probe isolates, to be said before the first one."""


class Probe:
    """Where one probe runs and what its environment is."""

    def __init__(self, folder: Path, tree: Path, environment: Mapping[str, str], notes: tuple[str, ...]) -> None:
        self.folder = folder
        self.environment = environment
        self.notes = notes
        """What could not be copied."""
        self._tree = tree

    def remove(self) -> None:
        """Delete the copy. Links are deleted, not what they lead to."""
        shutil.rmtree(self._tree, ignore_errors=True)


def make_probe(source: Path, tree: Path) -> Probe:
    """A copy of the folder `source` below the new folder `tree`, and the variables that keep trackers offline.

    Raises OSError when the disk is full or a folder cannot be read.
    """
    source = source.resolve()
    copying = _Copying(tree)
    copy = _branches(source, tree)
    copying.mirror(source, copy)
    return Probe(copy, tree, {PROBE: str(tree), **offline(tree / "trackers")}, tuple(copying.notes))


def offline(folder: Path) -> dict[str, str]:
    """Variables by which experiment trackers write into `folder` and send nothing (from each one's documentation)."""
    return {
        "WANDB_MODE": "offline",
        "WANDB_DIR": str(folder / "wandb"),
        "MLFLOW_TRACKING_URI": (folder / "mlruns").as_uri(),
        "COMET_MODE": "OFFLINE",
        "COMET_START_ONLINE": "0",
        "COMET_OFFLINE_DIRECTORY": str(folder / "comet"),
        "CLEARML_OFFLINE_MODE": "1",
        "NEPTUNE_MODE": "offline",
        "SWANLAB_MODE": "local",
        "AIM_TRACKING_SERVER_ENABLE": "0",
    }


def _branches(source: Path, tree: Path) -> Path:
    """Folders of `tree` down to the copy of `source`; what lies beside them on the way is linked."""
    place = tree
    place.mkdir(parents=True)
    (tree / "trackers").mkdir()
    above = Path(source.anchor)
    for name in source.parts[1:]:
        for other in _entries(above):
            if other.name != name and not (place / other.name).exists():
                (place / other.name).symlink_to(other.path)
        above, place = above / name, place / name
        place.mkdir(exist_ok=True)
    return place


class _Copying:
    """Fills the copy of a folder, and counts what it has cost."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self.entries = 0
        self.copied = 0
        """Bytes."""
        self.notes: list[str] = []

    def mirror(self, source: Path, copy: Path) -> None:
        for entry in _entries(source):
            target = copy / entry.name
            self.entries += 1
            if target.is_symlink() or target.exists() or Path(entry.path) == self.tree:
                continue
            try:
                self._copy(entry, target)
            except PermissionError as error:
                self.notes.append(f"{entry.path} cannot be read: {error.strerror}")

    def _copy(self, entry: os.DirEntry[str], target: Path) -> None:
        kind = entry.stat(follow_symlinks=False)
        if entry.name in SKIPPED:
            if "venv" in entry.name:
                target.symlink_to(entry.path)
        elif entry.is_symlink():
            target.symlink_to(os.path.join(os.path.dirname(entry.path), os.readlink(entry.path)))
        elif stat.S_ISDIR(kind.st_mode):
            if self.entries > ENTRIES:
                target.symlink_to(entry.path)
                self.notes.append(f"{entry.path} is used as it is: the working folder has more than {ENTRIES} files")
            else:
                target.mkdir()
                self.mirror(Path(entry.path), target)
        elif stat.S_ISREG(kind.st_mode):
            if kind.st_size <= COPIED_BYTES and self.copied <= COPIED_TOTAL:
                self.copied += kind.st_size
                shutil.copy2(entry.path, target)
            else:
                target.symlink_to(entry.path)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except PermissionError:
        return []
