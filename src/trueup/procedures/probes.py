"""The runs that a procedure makes of one command, each in a copy of the working folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from trueup.runs.executors import Executor, Watch
from trueup.runs.executors.local import LocalExecutor
from trueup.runs.executors.task import Task
from trueup.runs.probe import LIMITS, LIMITS_OF_LINKS, remove
from trueup.runs.run import new_folder
from trueup.runs.signals import Ending
from trueup.schema.bisection import Attempt
from trueup.schema.record import Record
from trueup.schema.variant import Variant, named

Keep = Callable[[int, Record], object]
"""Gets the index of an attempt and its record, as soon as it is there."""


class Interrupted(Exception):
    """A run was ended by a signal: so is what it was made for."""


class Probes:
    """Runs variants of a command below `.trueup/<kind>/<time>`. Records and captured output stay, the copies go.

    They are made by `executor`, by default one after the other in this process; it is closed at the end.
    """

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
        executor: Executor | None = None,
    ) -> None:
        self.limits: list[str] = []
        """What could not be kept apart in this job's working folder."""
        self._say = say
        self.executor: Executor = executor or LocalExecutor()
        """Whose notes say which runs were lost and made again."""
        self.folder = new_folder(kind).absolute()
        self._job = Task(
            name="",
            command=tuple(command),
            source=str(Path.cwd()),
            out="",
            steps=steps,
            timeout=timeout,
            links=links,
            questions=None if questions is None else {name: dict(options) for name, options in questions.items()},
        )
        self._made = 0
        self._begun = False
        self._ending = Ending()

    def __enter__(self) -> Probes:
        self._ending.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.executor.close()
            for tree in self.folder.glob("probe-*/tree"):
                remove(tree)
        finally:
            self._ending.__exit__(kind, error, trace)
        if kind is KeyboardInterrupt:
            raise Interrupted from error

    def run(self, variant: Variant) -> Record:
        """The judged record of the command with `variant`; raises what `run_all` raises."""
        return self.run_all([Attempt(variant=variant)])[0]

    def run_all(
        self, attempts: Sequence[Attempt], timeout: float | None = None, keep: Keep | None = None
    ) -> list[Record]:
        """The judged records of attempts, each ended after `timeout` seconds, by default those of these probes.

        Raises CommandError when one cannot be started, ProbeError when the working folder cannot be copied or a run was
        lost again and again, Interrupted when somebody ended a run, however well the command ended then.
        """
        tasks = [self._task(attempt, timeout) for attempt in attempts]
        try:
            return self.executor.run(tasks, Watch(self._started, self._kept(keep), lambda: self._ending.asked))
        except KeyboardInterrupt as error:
            raise Interrupted from error

    def _task(self, attempt: Attempt, timeout: float | None) -> Task:
        self._made += 1
        words = [named(attempt.variant).name, *([] if attempt.command is None else [" ".join(attempt.command)])]
        return msgspec.structs.replace(
            self._job,
            name=f"run {self._made}: {', '.join(words)}",
            command=self._job.command if attempt.command is None else attempt.command,
            out=str(self.folder / f"probe-{self._made}"),
            variant=attempt.variant,
            timeout=self._job.timeout if timeout is None else timeout,
        )

    def _started(self, task: Task, limits: Sequence[str]) -> None:
        self._note(limits)
        self._say(task.name)

    def _kept(self, keep: Keep | None) -> Callable[[int, Record, Sequence[str]], None]:
        def ended(index: int, record: Record, limits: Sequence[str]) -> None:
            self._note(limits)
            if keep is not None:
                keep(index, record)

        return ended

    def _note(self, limits: Sequence[str]) -> None:
        """Say what is not kept apart, each once, and first of all what never is."""
        new = [note for note in limits if note not in self.limits]
        self.limits += new
        always = () if self._begun else LIMITS_OF_LINKS if self._job.links else LIMITS
        self._begun = True
        for note in (*always, *new):
            self._say(f"not kept apart from the job: {note}")
