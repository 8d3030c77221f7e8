"""The event file of this process: one JSON object a line, each written at once: a kill tears the last line at most."""

from __future__ import annotations

import json
import os
import socket
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SCHEMA = 1
HELD = 2000
"""Events kept while it is not yet known whether this process is a rank; older ones are dropped and counted."""


class EventFile:
    """Writes events once opened; before that, holds them. Never raises: a full or read-only disk stops the writing."""

    def __init__(self, folder: str, faulty: bool = False) -> None:
        self.folder = folder
        self._faulty = faulty
        """Fail at every event, to prove that the job goes on."""
        self.path: str | None = None
        self.failed: str | None = None
        self.dropped = 0
        self._held: list[str] = []
        self._descriptor: int | None = None
        self._lock = threading.RLock()

    @property
    def is_open(self) -> bool:
        return self._descriptor is not None

    def open(self, header: dict[str, Any]) -> None:
        """Create this process's file, write `header` and whatever was held."""
        with self._lock:
            if self._descriptor is not None or self.failed:
                return
            name = f"events-{socket.gethostname()}-{os.getpid()}-{time.time_ns()}.jsonl"
            self.path = os.path.join(self.folder, name)
            try:
                os.makedirs(self.folder, exist_ok=True)
                self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            except OSError as error:
                self._fail(error)
                return
            held, self._held = self._held, []
            self.write("process", schema=SCHEMA, **header)
            for line in held:
                self._put(line)

    def write(self, kind: str, **fields: Any) -> None:
        """Append one event; values that JSON does not know are written as their `str`."""
        try:
            if self._faulty:
                raise RuntimeError("fault injected into events")
            line = json.dumps({"t": time.time(), "kind": kind, **fields}, default=str, separators=(",", ":"))
        except Exception:  # a value whose `str` fails
            self.dropped += 1
            return
        with self._lock:
            if self._descriptor is not None:
                self._put(line)
            elif self.failed is None:
                if len(self._held) < HELD:
                    self._held.append(line)
                else:
                    self.dropped += 1

    def close(self) -> None:
        """Write nothing any more."""
        with self._lock:
            descriptor, self._descriptor = self._descriptor, None
            self.failed = self.failed or "closed"
            if descriptor is not None:
                os.close(descriptor)

    def forget(self) -> None:
        """In a forked child: leave the parent's file alone and hold events again."""
        self.dropped = 0
        self._lock = threading.RLock()
        descriptor, self._descriptor = self._descriptor, None
        self._held, self.path = [], None
        if descriptor is not None:
            try:
                os.close(descriptor)
            except OSError:
                pass

    def _put(self, line: str) -> None:
        data = line.encode("utf-8", "replace") + b"\n"
        try:
            if os.write(self._descriptor, data) < len(data):  # type: ignore[arg-type]  # called while it is open
                raise OSError("the disk took only a part of an event")
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        """Give up writing, quietly: the job matters more than its record."""
        self.failed = str(error)
        descriptor, self._descriptor = self._descriptor, None
        self._held = []
        if descriptor is not None:
            try:
                os.close(descriptor)
            except OSError:
                pass
