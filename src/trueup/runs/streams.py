"""The command's output: passed on byte for byte as it comes, and captured into a file."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import termios
import threading
import time
import tty
from pathlib import Path

CHUNK = 1 << 16
CAPTURE_LIMIT = 1 << 30
"""Bytes of one stream kept in its file; a job of weeks must not fill the disk a second time."""
GRACE = 1.5
"""Seconds after the end of the command in which what it wrote last is still awaited."""
IN_FLIGHT = 1 << 20
"""More than a pipe can hold: what comes beyond it after the end was written by a process that outlived the command."""


class Stream:
    """Carries one output of the command to a file descriptor of ours and into a file, in a thread of its own.

    A terminal at our end becomes a terminal at the command's end, so that progress bars and colours stay.
    """

    def __init__(self, target: int | None, capture: Path) -> None:
        self.notes: list[str] = []
        self.held_open = False
        """True when some process kept the stream open after the command had ended, and we stopped listening."""
        self._target = target
        self._terminal = target is not None and os.isatty(target)
        self._source, self.child_end = self._open_pair()
        self._capture: int | None = os.open(capture, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self._captured = 0
        self._ended_at: float | None = None
        self._thread = threading.Thread(target=self._run, name=f"trueup-{capture.stem}", daemon=True)

    def start(self) -> None:
        """Begin to carry; the command has its own copy of `child_end` by now."""
        os.close(self.child_end)
        self._thread.start()

    def abandon(self) -> None:
        """Close everything; the command was never started."""
        os.close(self.child_end)
        self._close()

    def finish(self) -> None:
        """The command has ended: carry what is left, and return although another process may hold the stream open."""
        self._ended_at = time.monotonic()
        self._thread.join()

    def resize(self) -> None:
        """Give the command's terminal the size of ours."""
        if self._terminal and self._target is not None:
            try:
                size = fcntl.ioctl(self._target, termios.TIOCGWINSZ, struct.pack("HHHH", 0, 0, 0, 0))
                fcntl.ioctl(self._source, termios.TIOCSWINSZ, size)
            except OSError:
                pass

    def _open_pair(self) -> tuple[int, int]:
        if self._terminal:
            try:
                source, child_end = os.openpty()
            except OSError:  # no free pseudo-terminal: the job runs as if its output went to a pipe
                self._terminal = False
            else:
                tty.setraw(child_end)  # bytes pass unchanged; our own terminal translates line ends
                self._source = source
                self.resize()
                return source, child_end
        return os.pipe()

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        after_end = 0
        while True:
            ready = poll.poll(100)
            if ready:
                try:
                    data = os.read(self._source, CHUNK)
                except OSError:  # a pseudo-terminal says EIO when the last process closed it
                    break
                if not data:
                    break
                self._keep(data)
                if not self._pass_on(data):
                    break
            if self._ended_at is not None and time.monotonic() - self._ended_at > GRACE:
                after_end += len(data) if ready else 0
                if not ready or after_end > IN_FLIGHT:
                    self.held_open = True
                    break
        self._close()

    def _pass_on(self, data: bytes) -> bool:
        """Write to our own output; False when its reader is gone, which the command then learns as without us."""
        rest = memoryview(data)
        while self._target is not None and rest:
            try:
                rest = rest[os.write(self._target, rest) :]
            except BlockingIOError:  # somebody made our output non-blocking
                select.select([], [self._target], [])
            except BrokenPipeError:
                return False
            except OSError as error:
                self.notes.append(f"output could not be passed on any more: {error.strerror}")
                self._target = None
        return True

    def _keep(self, data: bytes) -> None:
        if self._capture is None:
            return
        try:
            if self._captured + len(data) > CAPTURE_LIMIT:
                raise OSError(0, f"more than {CAPTURE_LIMIT >> 20} MiB")
            self._captured += len(data)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._capture, rest) :]
        except OSError as error:
            self.notes.append(f"the rest of the output is not captured: {error.strerror}")
            os.close(self._capture)
            self._capture = None

    def _close(self) -> None:
        os.close(self._source)
        if self._capture is not None:
            os.close(self._capture)


def same_file(first: int, second: int) -> bool:
    """True when two file descriptors lead to the same place (`2>&1`, or one terminal)."""
    try:
        return os.path.samestat(os.fstat(first), os.fstat(second))
    except OSError:
        return False
