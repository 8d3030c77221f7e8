"""The runs of a bisect: each variant's outcomes, against the signature that is looked for."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from trueup.procedures.bisection.oracle import Oracle
from trueup.schema.bisection import Attempt, Outcome, Trial
from trueup.schema.record import Record
from trueup.schema.variant import named

Run = Callable[[Sequence[Attempt], float | None], Sequence[Record]]
"""Runs attempts, several at once where it can, each for at most so many seconds."""
Stage = Literal["search", "order", "inside"]

MISSED = 0.01
"""Chance of taking a fault that comes and goes for gone, at which a variant that passes is run no more."""
REPEATS = 8
"""Runs of one variant at most."""
LONGER = 10
"""Times as long as the control a run may take before it is ended."""
LEAST, LEAST_TO_COMPILE = 30.0, 120.0
"""Seconds that it may take beyond the control, and where the job compiles what the control does not."""


class OutOfRuns(Exception):
    """As many runs were made as are allowed, or the time for them is over; the message says which."""


class Trials:
    """Runs attempts and keeps what they showed. `oracle` is set when it is known what is looked for."""

    def __init__(
        self, run: Run, *, limit: int, timeout: float | None = None, say: Callable[[str], object] = lambda text: None
    ) -> None:
        self.oracle: Oracle | None = None
        self.rate = 1.0
        """Share of the runs in which the fault shows where it can, as far as it is known."""
        self.timeout = timeout
        self.until = math.inf
        """When no more run may begin, by `time.monotonic()`."""
        self.runs = 0
        self.limit = limit
        self._run = run
        self._say = say
        self._trials: dict[bytes, Trial] = {}
        self._records: dict[bytes, list[Record]] = {}

    def made(self) -> tuple[Trial, ...]:
        """All variants that were run, the first one first."""
        return tuple(self._trials.values())

    def records(self, attempt: Attempt) -> Sequence[Record]:
        """Of the runs of this attempt."""
        return self._records.get(key(attempt), ())

    @property
    def seconds(self) -> float:
        """Of a run, on average."""
        made = [record.duration_s or 0.0 for records in self._records.values() for record in records]
        return sum(made) / len(made) if made else 0.0

    def run(self, attempts: Sequence[Attempt], timeout: float | None = None) -> Sequence[Record]:
        """The records of one more run of each, of at most `timeout` seconds. Raises OutOfRuns."""
        if self.runs + len(attempts) > self.limit:
            raise OutOfRuns(f"{self.limit} runs were made, as many as are allowed")
        if time.monotonic() >= self.until:
            raise OutOfRuns("the time to look within the layers is over")
        self.runs += len(attempts)
        records = self._run(attempts, timeout or self.timeout)
        for attempt, record in zip(attempts, records, strict=True):
            self._records.setdefault(key(attempt), []).append(record)
        return records

    def follow(self, control: Record, compiles: bool) -> None:
        """Take the time limit of the runs to come from the time of the control, unless one was given."""
        if self.timeout is None and control.duration_s:
            least = LEAST_TO_COMPILE if compiles else LEAST
            self.timeout = max(LONGER * control.duration_s, control.duration_s + least)

    def see(
        self, attempts: Sequence[Attempt], stage: Stage = "search", on: Sequence[tuple[str, ...]] | None = None
    ) -> list[Outcome]:
        """The outcomes of one more run of each attempt. `on`: the layers that ran as the job has them in each."""
        places = on or [()] * len(attempts)
        records = self.run(attempts)
        return [
            self.note(attempt, record, stage, layers)
            for attempt, record, layers in zip(attempts, records, places, strict=True)
        ]

    def note(self, attempt: Attempt, record: Record, stage: Stage = "search", on: tuple[str, ...] = ()) -> Outcome:
        """Keep what a run of `attempt` showed."""
        assert self.oracle is not None, "nothing is looked for yet"
        outcome, why = self.oracle.outcome(record)
        before = self._trials.get(key(attempt))
        trial = Trial(
            name=title(attempt),
            stage=stage,
            on=on,
            outcome=outcome,
            why=why,
            runs=1,
            failed=int(outcome == "fails"),
            seconds=record.duration_s or 0.0,
        )
        if before is not None:
            trial = msgspec.structs.replace(
                before if before.outcome == "fails" else trial,
                stage=before.stage,
                on=before.on,
                runs=before.runs + 1,
                failed=before.failed + trial.failed,
                seconds=before.seconds + trial.seconds,
            )
        self._trials[key(attempt)] = trial
        self._say(f"{trial.name}: {outcome}, {why}")
        return outcome

    def settled(self, attempt: Attempt, stage: Stage = "inside", on: tuple[str, ...] = ()) -> Outcome:
        """The outcome of an attempt, of as many runs as a fault needs that comes and goes. Raises OutOfRuns."""
        return self.settle([attempt], stage, on)[0]

    def settle(self, attempts: Sequence[Attempt], stage: Stage = "inside", on: tuple[str, ...] = ()) -> list[Outcome]:
        """The outcomes of attempts, run at once where that can be; one that passes is repeated until it is sure."""
        enough = min(REPEATS, 1 if self.rate >= 1 else math.ceil(math.log(MISSED) / math.log(1 - self.rate)))
        each_once = list({key(each): each for each in attempts}.values())
        while open_ones := [each for each in each_once if self._is_open(each, enough)]:
            self.see(open_ones, stage, [on] * len(open_ones))
        return [self._trials[key(each)].outcome for each in attempts]

    def trial(self, attempt: Attempt) -> Trial | None:
        """What all runs of this attempt showed."""
        return self._trials.get(key(attempt))

    def _is_open(self, attempt: Attempt, enough: int) -> bool:
        trial = self._trials.get(key(attempt))
        return trial is None or (trial.outcome == "passes" and trial.runs < enough)


def key(attempt: Attempt) -> bytes:
    """The same for attempts that are the same."""
    return msgspec.json.encode(attempt, order="deterministic")


def title(attempt: Attempt) -> str:
    """What differs from the job as it is."""
    name = named(attempt.variant).name
    if attempt.command is None:
        return name
    command = " ".join(attempt.command)
    return command if name == "as is" else f"{name}, {command}"
