"""A probe: a run made to learn something, which must leave no trace in the user's files and trackers.

It runs in a copy of the working folder. What lies outside of it is not there, unless links are allowed: then the copy
stands at the same place in a tree whose other branches are links, and large files are links, which
`trueup_instrument.isolation` turns into files of the copy when Python code writes to them.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

PROBE = "TRUEUP_PROBE"
"""Tells the instrument the folder of the probe."""
DRIFT = "TRUEUP_DRIFT"
"""Tells the instrument to keep what comparisons of runs need."""
EAGER_RANDOM = "TRUEUP_EAGER_RANDOM"
"""Tells the instrument to let compiled code draw the random numbers of eager code."""
LINKED_BYTES = 1 << 20
"""Where links are allowed, a larger file is one."""
COPIED_TOTAL = 2 << 30
"""Bytes of all files beyond which the working folder is not copied."""
ENTRIES = 50_000
"""Files and folders beyond which it is not."""
SKIPPED = frozenset({".trueup", ".git", ".hg", "__pycache__", ".venv", "venv", ".mypy_cache", ".pytest_cache"})
"""Left out, but for virtual environments, which are links: a launch command may name one."""

LIMITS = (
    "files that the program names by absolute paths, and uploads to hubs and stores; what lies outside of the working "
    "folder is not there",
)
LIMITS_OF_LINKS = (
    "files that the program names by absolute paths, uploads to hubs and stores, and linked files and folders that "
    "other programs than Python change, or Python by their resolved paths",
)
"""What no probe isolates, to be said before the first one."""


class ProbeError(Exception):
    """The working folder cannot be copied; the message says what to do."""


class Probe:
    """Where one probe runs and what its environment is."""

    def __init__(
        self, source: Path, folder: Path, tree: Path, environment: Mapping[str, str], notes: tuple[str, ...]
    ) -> None:
        self.folder = folder
        """The copy of the folder `source`."""
        self.environment = environment
        self.notes = notes
        """What could not be copied."""
        self._tree = tree
        self._source = source

    def command(self, words: Sequence[str]) -> tuple[str, ...]:
        """A command whose words lead to the copy where they name the working folder or a file in it."""
        return tuple(map(self._led, words))

    def variables(self, base: Mapping[str, str]) -> dict[str, str]:
        """The environment of the probe instead of `base`."""
        led = {name: self._led(base[name]) for name in ("PWD", "PYTHONPATH") if name in base}
        return {**base, **led, **self.environment}

    def _led(self, word: str) -> str:
        if len(self._source.parts) == 1:  # the root: every path would be in it
            return word
        named = rf"(?<![\w./~-]){re.escape(str(self._source))}(?P<below>/[^\s\"':,;]*)?(?=$|[\s\"':,;)&|<>`])"
        return re.sub(
            named, lambda found: f"{self.folder}{found['below'] or ''}" if self._has(found) else found[0], word
        )

    def _has(self, found: re.Match[str]) -> bool:
        """Whether what a word names is in the copy, and no environment, whose programs know where they are."""
        parts = Path(found["below"] or "/").parts[1:]
        if ".." in parts or SKIPPED.intersection(parts):
            return False
        return not parts or not (self._source / parts[0] / "pyvenv.cfg").exists()

    def remove(self) -> None:
        """Delete the copy. Links are deleted, not what they lead to."""
        remove(self._tree)


def make_probe(source: Path, tree: Path, links: bool = False) -> Probe:
    """A copy of the folder `source` below the new folder `tree`, and the variables that keep trackers offline.

    `links` lets large files and what is outside of the folder be links. Raises ProbeError when the folder is too large,
    OSError when the disk is full.
    """
    source = source.resolve()
    copying = _Copying(tree, links)
    try:
        copy = _branches(source, tree) if links else _room(tree / source.name, tree)
        copying.mirror(source, copy)
    except BaseException:
        remove(tree)
        raise
    variables = {PROBE: str(tree)} if links else {}
    return Probe(source, copy, tree, {DRIFT: "1", **variables, **offline(tree / "trackers")}, tuple(copying.notes))


def remove(tree: Path) -> None:
    """Delete a tree, also the folders in it that a job has made read-only; what cannot be deleted stays."""
    shutil.rmtree(tree, ignore_errors=True)
    if tree.exists():
        for folder, _, _ in os.walk(tree):
            try:
                os.chmod(folder, stat.S_IRWXU)
            except OSError:
                continue
        shutil.rmtree(tree, ignore_errors=True)


def _room(copy: Path, tree: Path) -> Path:
    copy.mkdir(parents=True)
    (tree / "trackers").mkdir(exist_ok=True)
    return copy


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

    def __init__(self, tree: Path, links: bool) -> None:
        self.tree = tree
        self.links = links
        self.entries = 0
        self.copied = 0
        """Bytes."""
        self.notes: list[str] = []

    def mirror(self, source: Path, copy: Path) -> None:
        for entry in _entries(source):
            target = copy / entry.name
            if target.is_symlink() or target.exists() or Path(entry.path) == self.tree:
                continue
            self.entries += 1
            self._check()
            try:
                self._copy(entry, target)
            except FileNotFoundError:  # it went in the meantime
                continue
            except PermissionError as error:
                self.notes.append(f"{entry.path} cannot be read: {error.strerror}")

    def _check(self) -> None:
        if self.entries > ENTRIES or self.copied > COPIED_TOTAL:
            raise ProbeError(
                f"the working folder holds more than {ENTRIES} files or {COPIED_TOTAL >> 30} GiB, and each run gets a "
                "copy of it: start in a folder that holds the job alone"
                f"{'' if self.links or self.entries > ENTRIES else ', or allow links to large files with --links'}"
            )

    def _copy(self, entry: os.DirEntry[str], target: Path) -> None:
        kind = entry.stat(follow_symlinks=False)
        if entry.name in SKIPPED:
            if "venv" in entry.name:
                target.symlink_to(entry.path)
        elif entry.is_symlink():
            self._copy_link(entry, target)
        elif stat.S_ISDIR(kind.st_mode):
            target.mkdir()
            self.mirror(Path(entry.path), target)
        elif stat.S_ISREG(kind.st_mode):
            self._copy_file(entry.path, kind.st_size, target)
        elif stat.S_ISFIFO(kind.st_mode):
            os.mkfifo(target)

    def _copy_file(self, source: str, size: int, target: Path) -> None:
        if self.links and size > LINKED_BYTES:
            target.symlink_to(source)
            return
        self.copied += size
        self._check()
        shutil.copy2(source, target)

    def _copy_link(self, entry: os.DirEntry[str], target: Path) -> None:
        """A link that leads within the folder does so in the copy; another leads to a copy, or where it led."""
        leads = os.readlink(entry.path)
        if not os.path.isabs(leads) and ".." not in Path(leads).parts:
            target.symlink_to(leads)
        elif self.links or not os.path.exists(entry.path):
            target.symlink_to(os.path.join(os.path.dirname(entry.path), leads))
        elif os.path.isdir(entry.path):
            target.mkdir()
            self.mirror(Path(os.path.realpath(entry.path)), target)
        elif os.path.isfile(entry.path):
            self._copy_file(os.path.realpath(entry.path), os.stat(entry.path).st_size, target)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except PermissionError:
        return []
