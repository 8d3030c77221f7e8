"""Runs that were made before are not made again: a procedure that was stopped goes on where it was.

Of each attempt as many records are kept as it was run, below `.trueup/bisect/known`; whoever asks for one attempt the
third time gets its third record. Anything that a run depends on (`fingerprint`) gives other records.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from trueup.runs.fingerprint import Fingerprint, digest
from trueup.runs.run import TRUEUP
from trueup.schema.bisection import Attempt
from trueup.schema.record import Record, RecordError, record_from_json, record_to_json

KNOWN = TRUEUP / "bisect" / "known"


class Runs(Protocol):
    """What makes the runs: `Probes.run_all`."""

    def __call__(
        self, attempts: Sequence[Attempt], timeout: float | None, keep: Callable[[int, Record], object], /
    ) -> Sequence[Record]: ...


class Remembered:
    """`run` that asks its memory first.

    `options`: what else was said about the runs (their steps), of JSON's kinds. `ignored`: files that no run depends
    on: where the result goes. With `fresh` all runs are made, and replace the ones that are known.
    """

    def __init__(
        self,
        run: Runs,
        command: Sequence[str],
        *,
        options: Mapping[str, object] | None = None,
        ignored: Sequence[Path] = (),
        fresh: bool = False,
        folder: Path = KNOWN,
    ) -> None:
        self.remembered = 0
        """Runs that were not made, since they were known."""
        self._run = run
        self._command = command
        self._options = dict(options or {})
        self._fresh = fresh
        self._folder = folder.absolute()
        self._fingerprint = Fingerprint(command, Path.cwd(), dict(os.environ), ignored)
        self._asked: Counter[str] = Counter()

    def __call__(self, attempts: Sequence[Attempt], timeout: float | None = None) -> list[Record]:
        """The records of attempts, known or new; raises what `run` raises. What has ended by then is kept."""
        state = self._fingerprint.take()
        places = [self._place(attempt, state) for attempt in attempts]
        records = {index: known for index, place in enumerate(places) if (known := self._known(place, timeout))}
        self.remembered += len(records)
        unknown = [index for index in range(len(attempts)) if index not in records]
        if unknown:
            wanted = [attempts[index] for index in unknown]
            made = self._run(wanted, timeout, lambda number, record: _keep(places[unknown[number]], record))
            records.update(zip(unknown, made, strict=True))
        return [records[index] for index in range(len(attempts))]

    def _place(self, attempt: Attempt, state: str) -> Path:
        """The file of the record that is asked for now."""
        variant = attempt.variant
        command = self._command if attempt.command is None else attempt.command
        changes = [variant.layers, variant.remedies, variant.environment]
        key = digest([list(command), changes, self._options, state])
        self._asked[key] += 1
        return self._folder / key / f"{self._asked[key]}.json"

    def _known(self, place: Path, timeout: float | None) -> Record | None:
        """A run that its time limit ended tells nothing about one that may take longer."""
        if self._fresh:
            return None
        try:
            record = record_from_json(place.read_bytes())
        except (OSError, RecordError):
            return None
        cut = record.exit.reason == "timeout" and (timeout is None or timeout > (record.duration_s or 0))
        return None if cut else record


def _keep(place: Path, record: Record) -> None:
    """Store the record whole or not at all; a disk that takes none costs the memory, not the run."""
    if record.exit.reason == "interrupted":
        return
    partly = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        partly.write_text(record_to_json(record), encoding="utf-8")
        partly.replace(place)
    except OSError:
        return
