"""The machine as a tree of files, the variables and the folder that a job would be started with."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from trueup.environment.byte_ranges import head_of

CREDENTIALS = re.compile(r"(?<=://)[^/\s'\"]+@|(?<![^\s=,;'\"])[^\s/:@=,;'\"]+:[^\s/'\"]+@(?=[\w.\[])")
"""`user:password@` of a URL, whose password may hold an @, and of the `user:password@proxy:8080` that pip takes too."""
LONGEST_TEXT = 1 << 20
"""Configuration files and the files of /proc are far smaller; a larger one is cut, never read whole."""


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """Where the facts of a machine are read.

    `root` is `/` but for a tree that was saved from another machine (`/proc`, `/sys`, `/etc`, `/usr`).
    """

    root: Path = Path("/")
    variables: Mapping[str, str] = msgspec.field(default_factory=lambda: dict(os.environ))
    folder: Path = msgspec.field(default_factory=Path.cwd)
    """The working folder of the job."""

    @property
    def home(self) -> Path:
        """HOME, else what the password database says."""
        given = self.variables.get("HOME")
        return Path(given) if given else Path(os.path.expanduser("~"))

    def path(self, absolute: str | Path) -> Path:
        """Where the file `absolute` of the machine stands."""
        return self.root / str(absolute).lstrip("/")

    def text(self, absolute: str | Path) -> str | None:
        """The text of a file of the machine, None when it cannot be read."""
        return text_of(self.path(absolute))

    def expanded(self, path: str) -> Path:
        """`path` with `~` written out; relative paths are those of the working folder."""
        if path == "~" or path.startswith("~/"):
            return self.home / path[2:]
        return self.folder / path


def without_credentials(url: str) -> str:
    """A URL, a proxy, or a text with such in it, without user names and passwords."""
    return CREDENTIALS.sub("", url)


def text_of(path: Path) -> str | None:
    """The text of a file, bytes that are no UTF-8 replaced, None when it cannot be read."""
    try:
        return head_of(path, LONGEST_TEXT).decode("utf-8", "replace")
    except OSError:
        return None


def names_in(folder: Path) -> list[str]:
    """The names in a folder in order, none when it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
