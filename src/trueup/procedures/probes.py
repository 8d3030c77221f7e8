"""The runs that a procedure makes of one command, each in a copy of the working folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from trueup.runs.probe import LIMITS, LIMITS_OF_LINKS, Probe, make_probe
from trueup.runs.run import new_folder, run_command
from trueup.runs.signals import Ending
from trueup.schema.record import Record
from trueup.schema.variant import Variant


class Interrupted(Exception):
    """A run was ended by a signal: so is what it was made for."""


class Probes:
    """Runs variants of a command below `.trueup/<kind>/<time>`. Records and captured output stay, the copies go."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        steps: int | None,
        timeout: float | None,
        say: Callable[[str], object],
        links: bool = False,
        kind: str = "fix",
        questions: Mapping[str, Mapping[str, int]] | None = None,
    ) -> None:
        self.limits: list[str] = []
        """What could not be kept apart in this job's working folder."""
        self._command = command
        self._steps = steps
        self._timeout = timeout
        self._say = say
        self._links = links
        self._questions = questions
        self.folder = new_folder(kind).absolute()
        self._probe: Probe | None = None
        self._made = 0
        self._ending = Ending()

    def __enter__(self) -> Probes:
        self._ending.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._remove()
        finally:
            self._ending.__exit__(kind, error, trace)
        if kind is KeyboardInterrupt:
            raise Interrupted from error

    def run(self, variant: Variant) -> Record:
        """The judged record of the command with `variant`.

        Raises CommandError when it cannot be started, ProbeError when the working folder cannot be copied, Interrupted
        when somebody ended the run, however well the command ended then.
        """
        self._made += 1
        out = self.folder / f"probe-{self._made}"
        self._probe = probe = make_probe(Path.cwd(), out / "tree", self._links)
        self.limits += [note for note in probe.notes if note not in self.limits]
        if self._made == 1:
            for note in (*(LIMITS_OF_LINKS if self._links else LIMITS), *probe.notes):
                self._say(f"not kept apart from the job: {note}")
        self._say(f"run {self._made}: {variant.name}")
        try:
            record = run_command(
                self._command,
                out=out,
                variant=variant,
                steps=self._steps,
                timeout=self._timeout,
                pass_output=False,
                probe=probe,
                questions=self._questions,
            )
        finally:
            self._remove()
        if self._ending.asked:
            raise Interrupted
        return record

    def _remove(self) -> None:
        if self._probe is not None:
            self._probe.remove()
            self._probe = None
