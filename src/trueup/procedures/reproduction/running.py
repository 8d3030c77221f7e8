"""Runs candidates, each in a folder of its own."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

from trueup.procedures.bisection.layers import OFF
from trueup.procedures.bisection.signatures import ended
from trueup.procedures.reproduction.candidate import NAME, Candidate
from trueup.procedures.reproduction.judging import judged, judged_plainly
from trueup.runs.injection import RUN_ID
from trueup.runs.probe import Probe, ProbeError, make_probe, offline
from trueup.runs.process import CommandError, run_process
from trueup.runs.run import run_command
from trueup.runs.signals import Ending
from trueup.schema.bisection import Outcome, Signature
from trueup.schema.record import Record
from trueup.schema.variant import Variant, named

LONGER = 8
"""Times as long as one that failed a candidate may run: what waits for a rank that is gone is no use to wait for."""
SHORTEST = 60.0
"""Seconds that it may run anyway."""


class Runs:
    """`Checks` by real runs below `folder`; what they leave is deleted with their folders.

    `source` is the job's folder, `interpreter` the Python that ran it, beside which its launchers lie.
    """

    def __init__(
        self,
        signature: Signature,
        *,
        source: Path,
        timeout: float,
        interpreter: str | None = None,
        folder: Path | None = None,
        say: Callable[[str], object] = lambda text: None,
    ) -> None:
        self.made = 0
        self._signature = signature
        self._source = source
        self._timeout = timeout
        self._beside = [str(Path(interpreter).expanduser().parent)] if interpreter else []
        self._folder = folder
        self._say = say

    def observed(self, candidate: Candidate) -> tuple[Outcome, str]:
        """The outcome under `trueup run`. Raises KeyboardInterrupt when somebody ended the run."""
        return _to_its_end(self._observed, candidate)

    def plain(self, candidate: Candidate) -> tuple[Outcome, str]:
        """The outcome without trueup. Raises KeyboardInterrupt when somebody ended the run."""
        return _to_its_end(self._plain, candidate)

    def _observed(self, candidate: Candidate) -> tuple[Outcome, str]:
        with tempfile.TemporaryDirectory(prefix="trueup-repro-", dir=self._folder, ignore_cleanup_errors=True) as name:
            probe = self._prepared(candidate, Path(name))
            if probe is None:
                return "unresolved", "the working folder cannot be copied"
            self.made += 1
            try:
                record = run_command(
                    candidate.launch,
                    out=Path(name) / "out",
                    variant=self._variant(candidate),
                    timeout=self._timeout,
                    pass_output=False,
                    probe=probe,
                )
            except CommandError as error:
                return "unresolved", str(error)
            outcome, why = judged(self._signature, record, candidate.tests)
            if outcome == "fails" and self._signature.kind != "hang":
                self._timeout = min(self._timeout, max(SHORTEST, LONGER * (record.duration_s or 0.0)))
            self._tell(candidate, outcome, why if outcome == "fails" else f"{why} ({ended(record)})")
            return outcome, why

    def _plain(self, candidate: Candidate) -> tuple[Outcome, str]:
        with tempfile.TemporaryDirectory(prefix="trueup-repro-", dir=self._folder, ignore_cleanup_errors=True) as name:
            probe = self._prepared(candidate, Path(name))
            if probe is None:
                return "unresolved", "the working folder cannot be copied"
            self.made += 1
            captures = Path(name) / "captured"
            captures.mkdir()
            run_id = uuid.uuid4().hex
            try:
                ended = run_process(
                    probe.command(candidate.launch),
                    {**probe.variables(os.environ), RUN_ID: run_id},
                    run_id=run_id,
                    bootstrap=Path(name) / "none",
                    folder=captures,
                    events=captures,
                    cwd=probe.folder,
                    timeout=self._timeout,
                    pass_output=False,
                    ends_all=True,
                )
            except CommandError as error:
                return "unresolved", str(error)
            output = "".join(path.read_text(errors="replace") for path in sorted(captures.glob("*.txt")))
            outcome, why = judged_plainly(self._signature, ended.code, output, candidate.tests)
            self._tell(candidate, outcome, f"without trueup: {why}")
            return outcome, why

    def _prepared(self, candidate: Candidate, folder: Path) -> Probe | None:
        """The script in a folder of its own, or in a copy of the job's."""
        tree = folder / "tree"
        if candidate.alone:
            work = tree / "work"
            work.mkdir(parents=True)
            probe = Probe(work, work, tree, offline(tree / "trackers"), ())
        else:
            try:
                probe = make_probe(self._source, tree)
            except (ProbeError, OSError):
                return None
        probe.environment = {**probe.environment, "PATH": self._path}
        (probe.folder / NAME).write_text(candidate.script, encoding="utf-8")
        return probe

    def _variant(self, candidate: Candidate) -> Variant:
        """What is forced off, and where the launchers of the job's Python are."""
        layers = {layer: OFF[layer] for layer in candidate.forced}
        return named(Variant(layers=layers, environment={"PATH": self._path} if self._beside else {}))

    @property
    def _path(self) -> str:
        return os.pathsep.join([*self._beside, os.environ.get("PATH", os.defpath)])

    def _tell(self, candidate: Candidate, outcome: Outcome, why: str) -> None:
        arguments = candidate.launch[candidate.launch.index(NAME) + 1 :]
        switches = " ".join([*arguments, *(f"{layer} off" for layer in candidate.forced)])
        self._say(f"{NAME} {switches} ({len(candidate.script.splitlines())} lines): {outcome}, {why}")


def _to_its_end(run: Callable[[Candidate], tuple[Outcome, str]], candidate: Candidate) -> tuple[Outcome, str]:
    """The outcome, unless a signal came, which reaches the command and not us while one runs."""
    with Ending() as ending:
        result = run(candidate)
    if ending.asked:
        raise KeyboardInterrupt
    return result


def seconds_of(record: Record, least: float = 120.0) -> float:
    """The time limit of a candidate's run, from that of the job."""
    return max(least, 6 * (record.duration_s or 0.0))
