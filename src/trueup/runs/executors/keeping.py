"""A process of its own that makes one run, seen from whoever started it.

It lives as long as somebody holds the pipe that it was started with: when its starter dies, however that happens, the
pipe closes, and it ends the command with all its processes. The standard library only: this module is also sent to
machines that have no trueup.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from typing import Any

TOKEN = "TRUEUP_ATTEMPT"
"""A variable that all processes of one try of a run carry, the keeper included."""
PROGRAM = """
import json, os, sys
asked = json.loads(sys.stdin.buffer.readline())
if asked["detached"] and os.fork():
    os._exit(0)
sys.path[:0] = asked["entries"]
try:
    from trueup.runs.executors.keeper import keep
except ImportError as error:
    sys.stdout.write(json.dumps({"error": ["missing", str(error), 1]}))
    sys.exit(1)
keep(asked["task"])
"""


class Keeper:
    """One such process. `python` and `entries` of `sys.path`: with which trueup can be imported.

    `detached`: it is no child of ours, so that nobody who ends our children ends it before it has cleaned up.
    """

    def __init__(
        self, python: str, entries: list[str], task: dict[str, Any], environment: dict[str, str], detached: bool = False
    ) -> None:
        self.told: dict[str, Any] | None = None
        """What it said at its end; None when it was killed before."""
        self._said = b""
        self._process = subprocess.Popen(
            [python, "-I", "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # what a terminal sends to its foreground group is ours to pass on
        )
        assert self._process.stdin is not None
        asked = {"entries": entries, "task": task, "detached": detached}
        try:
            self._process.stdin.write(json.dumps(asked).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it is gone already, as reading from it will show

    @property
    def pid(self) -> int:
        """Of the process that was started, which ends at once when detached."""
        return self._process.pid

    def fileno(self) -> int:
        """Readable when there is something to `read`."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def read(self) -> bool:
        """Take what it says; True when it has ended."""
        data = os.read(self.fileno(), 1 << 16)
        self._said += data
        if data:
            return False
        self._close()
        try:
            self.told = json.loads(self._said)
        except ValueError:
            self.told = None
        return True

    def wait(self, seconds: float) -> bool:
        """Wait for its end, not longer than this; True when it has ended."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if select.select([self], [], [], left)[0] and self.read():
                return True
        return False

    def ask_to_end(self) -> None:
        """Let it end the command and itself."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def kill(self) -> None:
        """End it by force; the processes of the command go on."""
        try:
            os.kill(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._close()

    def _close(self) -> None:
        self.ask_to_end()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process.wait()
