"""The series of step times, losses and tokens: written at most once a second, thinned out in a long job."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from trueup_instrument.losses import Pending

KEPT = 4000
"""Steps written one by one; after as many again only every second one is, then every fourth, ..."""
EACH = 20
"""The first steps are written at once, so that a short job that dies has its record."""
HELD = 200


class Series:
    def __init__(self, write: Callable[..., None]) -> None:
        self._write = write
        self.forget()

    def forget(self) -> None:
        """Nothing was gathered yet."""
        self._count = 0
        self._kept = 0
        self._stride = 1
        self._written = time.monotonic()
        self._first: int | None = None
        self._rows: list[tuple[float, list[Pending], int | None, int]] = []

    def add(self, seconds: float, losses: list[Pending], tokens: int | None, backwards: int) -> None:
        """A step ended; `losses` are its pending values."""
        self._count += 1
        if (self._count - 1) % self._stride:
            return
        if self._first is None:
            self._first = self._count
        self._rows.append((seconds, losses, tokens, backwards))
        self._kept += 1
        now = time.monotonic()
        if self._count <= EACH or now - self._written >= 1.0 or len(self._rows) >= HELD:
            self.flush(only_ready=True)
            self._written = now
        if self._kept >= KEPT:
            self.flush()
            self._stride *= 2
            self._kept //= 2

    def flush(self, only_ready: bool = False) -> None:
        """Write what has been gathered; with `only_ready`, rows whose losses a device has still to compute wait."""
        rows = self._rows
        if only_ready:
            ready = 0
            while ready < len(rows) and all(loss.ready() for loss in rows[ready][1]):
                ready += 1
            rows = rows[:ready]
        if not rows:
            return
        self._write(
            "steps",
            first=self._first,
            stride=self._stride,
            seconds=[round(row[0], 6) for row in rows],
            losses=[sum(loss.value() for loss in row[1]) if row[1] else None for row in rows],
            tokens=[row[2] for row in rows],
            micro=[row[3] for row in rows],
        )
        self._rows = self._rows[len(rows) :]
        # where there are rows there is a first
        self._first = self._first + len(rows) * self._stride if self._rows else None  # type: ignore[operator]
