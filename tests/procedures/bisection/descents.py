"""Runs of the jobs in `bisect_jobs` for what lies within a layer, without the search for the layers before it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from trueup.procedures.bisection.oracle import Oracle
from trueup.procedures.bisection.signatures import signature_of
from trueup.procedures.bisection.trials import Trials
from trueup.runs.run import run_command
from trueup.schema.bisection import Attempt
from trueup.schema.record import Record
from trueup.schema.variant import Variant

JOBS = Path(__file__).parents[1] / "bisect_jobs"
TORCHRUN = str(Path(sys.executable).with_name("torchrun"))


class Descent:
    """A job whose fault is what its first run shows."""

    def __init__(self, folder: Path, job: str, *arguments: str, ranks: int | None = None, limit: int = 40) -> None:
        launcher = [sys.executable] if ranks is None else [TORCHRUN, "--nproc-per-node", str(ranks)]
        self.command = (*launcher, str(JOBS / job), *arguments)
        self.made: list[Attempt] = []
        self._folder = folder
        self.trials = Trials(self._run, limit=limit, timeout=200)
        self.base = Attempt()
        self.record = self.trials.run([self.base])[0]
        signature = signature_of(self.record)
        assert signature is not None, "the job does not fail"
        self.trials.oracle = Oracle(signature)

    def _run(self, attempts: Sequence[Attempt], timeout: float | None) -> list[Record]:
        return [self._one(attempt, timeout) for attempt in attempts]

    def _one(self, attempt: Attempt, timeout: float | None) -> Record:
        self.made.append(attempt)
        variables = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **attempt.variant.environment}
        return run_command(
            attempt.command or self.command,
            out=self._folder / f"run-{len(self.made)}",
            variant=_with(attempt, variables),
            timeout=timeout,
            pass_output=False,
            judge=lambda record: (),
        )


def _with(attempt: Attempt, variables: dict[str, str]) -> Variant:
    return msgspec.structs.replace(attempt.variant, environment=variables)
