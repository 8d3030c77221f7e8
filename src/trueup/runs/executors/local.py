"""Runs on this machine: one after the other in this process, or some side by side, each in a process of its own."""

from __future__ import annotations

import os
import select
import sys
from collections import deque
from collections.abc import Mapping, Sequence

import msgspec

from trueup.runs.executors.amending import with_note
from trueup.runs.executors.executor import ExecutorError, Watch
from trueup.runs.executors.keeping import TOKEN, Keeper
from trueup.runs.executors.left_over import end_left_over
from trueup.runs.executors.resources import cores, visible_gpus
from trueup.runs.executors.starting import entries, fields_of, new_token, record_of
from trueup.runs.executors.task import Task, again, perform
from trueup.schema.record import Record

GPUS = "CUDA_VISIBLE_DEVICES"
ENDING = 20.0
"""Seconds in which a keeper that was asked to end does so: it gives its command five, and five to what is left."""
TRIES = 2
"""Of a run whose keeper is killed."""


def local_executor(jobs: int | None, resources: Mapping[str, float]) -> LocalExecutor:
    """Raises ExecutorError where this machine does not have what is asked for."""
    unknown = resources.keys() - {"CPU", "GPU"}
    if unknown:
        raise ExecutorError(f"this machine has CPU and GPU, but no {', '.join(sorted(unknown))}; use --executor ray")
    gpus = visible_gpus(os.environ)
    each = resources.get("GPU", 0)
    if each != int(each):
        raise ExecutorError(f"runs on this machine do not share a GPU: GPU={each:g} is not a whole number")
    if each > len(gpus):
        raise ExecutorError(f"GPU={each:g} was asked for, and {len(gpus)} GPUs are visible")
    executor = LocalExecutor(_at_once(jobs, resources.get("CPU", 0), len(gpus) // int(each) if each else None))
    if each:
        width = int(each)
        executor.shares = [gpus[slot * width : (slot + 1) * width] for slot in range(executor.at_once)]
    elif gpus and "GPU" not in resources and executor.at_once > 1:
        executor.at_once = 1
        executor.notes.append(
            "runs are made one after the other, since they would share GPUs; say how many each needs: --resources GPU=1"
        )
    return executor


def _at_once(jobs: int | None, cpus: float, places: int | None) -> int:
    """Runs side by side: as many as were asked for, else as the cores allow, and not more than there are GPUs for."""
    wanted = jobs or (int(cores() / cpus) if cpus else places or 1)
    return max(1, wanted if places is None else min(wanted, places))


class LocalExecutor:
    """`at_once` runs side by side. With one nothing differs from runs in this process: signals reach the command."""

    def __init__(self, at_once: int = 1) -> None:
        self.at_once = at_once
        self.notes: list[str] = []
        self.shares: list[tuple[str, ...]] = []
        """The GPUs of each place; empty where GPUs are not shared out."""

    def run(self, tasks: Sequence[Task], watch: Watch) -> list[Record]:
        """See `Executor`."""
        if self.at_once > 1 and len(tasks) > 1:
            return _SideBySide(self, tasks, watch).run()
        return [self._here(index, task, watch) for index, task in enumerate(tasks)]

    def close(self) -> None:
        """Nothing is held between runs."""

    def placed(self, task: Task, place: int) -> Task:
        """The task with the GPUs of this place."""
        if not self.shares:
            return task
        return msgspec.structs.replace(task, variables={**task.variables, GPUS: ",".join(self.shares[place])})

    def _here(self, index: int, task: Task, watch: Watch) -> Record:
        if watch.is_over():
            raise KeyboardInterrupt
        limits: Sequence[str] = ()

        def begun(notes: Sequence[str]) -> None:
            nonlocal limits
            limits = notes
            watch.started(task, notes)

        record = perform(self.placed(task, 0), begun)
        if watch.is_over():
            raise KeyboardInterrupt
        watch.ended(index, record, limits)
        return record


class _Running(msgspec.Struct):
    index: int
    place: int
    tried: int
    task: Task
    token: str


class _SideBySide:
    """The runs of one call."""

    def __init__(self, executor: LocalExecutor, tasks: Sequence[Task], watch: Watch) -> None:
        self._executor = executor
        self._tasks = tasks
        self._watch = watch
        self._waiting = deque((index, 1) for index in range(len(tasks)))
        self._free = list(range(executor.at_once))
        self._running: dict[Keeper, _Running] = {}
        self._tokens: set[str] = set()
        self._records: dict[int, Record] = {}

    def run(self) -> list[Record]:
        try:
            while self._waiting or self._running:
                while self._waiting and self._free:
                    self._start(*self._waiting.popleft(), self._free.pop(0))
                ready, _, _ = select.select(list(self._running), [], [], 0.5)
                for keeper in ready:
                    if keeper.read():
                        self._ended(keeper)
        except BaseException:
            self._end()
            raise
        return [self._records[index] for index in range(len(self._tasks))]

    def _start(self, index: int, tried: int, place: int) -> None:
        if self._watch.is_over():
            raise KeyboardInterrupt
        task = again(self._tasks[index], tried)
        task = msgspec.structs.replace(self._executor.placed(task, place), apart=True)
        token = new_token()
        self._tokens.add(token)
        keeper = Keeper(sys.executable, entries(), fields_of(task), {**os.environ, TOKEN: token})
        self._running[keeper] = _Running(index, place, tried, task, token)
        if tried == 1:
            self._watch.started(task, ())

    def _ended(self, keeper: Keeper) -> None:
        run = self._running.pop(keeper)
        self._free.append(run.place)
        if keeper.told is None:
            self._lost(run)
            return
        record, limits = record_of(keeper.told)
        if run.tried > 1:
            why = f"made in {run.tried} tries: the process that makes the run was killed"
            record = with_note(record, why, run.task.out)
        self._records[run.index] = record
        self._watch.ended(run.index, record, limits)

    def _lost(self, run: _Running) -> None:
        """Somebody killed the keeper, perhaps the kernel for want of memory; its command may still run."""
        name = run.task.name
        end_left_over({run.token}, patience=0)
        if run.tried == TRIES:
            raise ExecutorError(f"{name}: the process that made the run was killed {TRIES} times; is memory short?")
        self._executor.notes.append(f"{name}: the process that made the run was killed; it is run again")
        self._waiting.appendleft((run.index, run.tried + 1))

    def _end(self) -> None:
        for keeper in self._running:
            keeper.ask_to_end()
        for keeper in self._running:
            if not keeper.wait(ENDING):
                keeper.kill()
        end_left_over(self._tokens, patience=1.0)
