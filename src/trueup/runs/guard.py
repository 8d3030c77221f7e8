"""Ends a probe whose trueup is gone: one that was killed can end nothing itself, and nobody would find its jobs."""

from __future__ import annotations

import contextlib
import subprocess
from types import TracebackType

_WAITS = 'read -r said && exit; kill -s TERM -- "-$1"; sleep "$2"; kill -s KILL -- "-$1"'
"""Reads until trueup says that all is over, or has no end of the pipe any more."""


class Guard:
    """While it is entered, the process group `group` is ended when this process is killed, by force after `grace` s."""

    def __init__(self, group: int, grace: float) -> None:
        self._words = ["/bin/sh", "-c", _WAITS, "trueup-guard", str(group), str(grace)]
        self._shell: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Guard:
        nothing = subprocess.DEVNULL
        with contextlib.suppress(OSError):  # without a shell the job runs unguarded
            self._shell = subprocess.Popen(
                self._words, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing, cwd="/", start_new_session=True
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shell is not None:
            with contextlib.suppress(OSError):
                self._shell.communicate(b"over\n")
