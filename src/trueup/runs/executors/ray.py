"""Runs as tasks of a Ray cluster, a new one on this machine where there is none.

A run that loses its worker or its machine is made again elsewhere. The job's environment is ours, not that of Ray's
workers, which set the number of threads; only the GPUs that Ray chose come from there, when GPUs were asked for.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trueup.runs.executors import keeping, ray_worker
from trueup.runs.executors.amending import with_note
from trueup.runs.executors.executor import ExecutorError, Watch
from trueup.runs.executors.left_over import end_left_over
from trueup.runs.executors.resources import cores
from trueup.runs.executors.shipping import shipment, unpack
from trueup.runs.executors.starting import entries, fields_of, new_token, record_of
from trueup.runs.executors.task import Task, again
from trueup.runs.signals import INTERRUPTS
from trueup.schema.record import Record

TRIES = 3
"""Of a run whose worker is lost."""
ENDING = 30.0
"""Seconds for all workers to end their commands."""
OBJECTS = 256 << 20
"""Bytes of the object store of a cluster of our own."""


class RayExecutor:
    """`resources`: of each run, by Ray's names; one CPU where nothing is said. The cluster is joined when needed."""

    def __init__(self, jobs: int | None, resources: Mapping[str, float], address: str | None = None) -> None:
        self.notes: list[str] = []
        self.shared_disk = True
        """Whether to look for our disk on the workers' machines."""
        self._jobs = jobs
        self._resources = {"CPU": 1.0, **resources}
        self._address = address
        self._environment = dict(os.environ)
        """Before Ray changes it."""
        self._ray: Any = _imported()
        self._joined = False
        self._shipment: Any = None
        self._tokens: set[str] = set()
        self._mark: str | None = None

    @property
    def at_once(self) -> int:
        """See `Executor`."""
        self._join()
        if self._jobs is not None:
            return self._jobs
        total = self._ray.cluster_resources()
        shares = [total.get(name, 0) / amount for name, amount in self._resources.items() if amount]
        return max(1, int(min(shares, default=1)))

    def run(self, tasks: Sequence[Task], watch: Watch) -> list[Record]:
        """See `Executor`."""
        self._join()
        if tasks and self._mark is None and self.shared_disk:
            Path(tasks[0].out).parent.mkdir(parents=True, exist_ok=True)
            handle, self._mark = tempfile.mkstemp(prefix=".mark-", dir=Path(tasks[0].out).parent)
            os.close(handle)
        return _Batch(self, tasks, watch).run()

    def close(self) -> None:
        """Leave the cluster; one of our own ends."""
        if self._mark is not None:
            Path(self._mark).unlink(missing_ok=True)
        if self._joined:
            self._joined = False
            with _Handlers():
                self._ray.shutdown()
        end_left_over(self._tokens, patience=ENDING)

    def submit(self, task: Task, token: str, before: Sequence[str]) -> Any:
        """A reference to the answer of `ray_worker.make_run`; `before`: the tokens of earlier tries."""
        self._tokens.add(token)
        place = {
            "mark": self._mark or "",
            "python": sys.executable,
            "entries": entries(),
            "environment": self._environment,
            "token": token,
            "before": list(before),
            "gpus": bool(self._resources.get("GPU")),
        }
        return self._remote.remote(fields_of(task), place, self._shipment)

    def ship(self, task: Task) -> None:
        """From now on workers get trueup and the working folder."""
        if self._shipment is None:
            self._shipment = self._ray.put(shipment(task))

    def cancel(self, running: Sequence[Any]) -> None:
        """End these runs with all their processes."""
        for reference in running:
            self._ray.cancel(reference, force=False)
        left = running
        if left:
            _, left = self._ray.wait(list(running), num_returns=len(running), timeout=ENDING)
        for reference in left:
            self._ray.cancel(reference, force=True)
        end_left_over(self._tokens, patience=ENDING if left else 2.0)

    def _join(self) -> None:
        if self._joined:
            return
        self._joined = True
        with _Handlers():
            try:
                self._init()
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise ExecutorError(f"no Ray cluster can be joined: {error}") from error
        self._check()
        for module in (keeping, ray_worker):
            self._ray.cloudpickle.register_pickle_by_value(module)

    def _init(self) -> None:
        quiet = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": True}
        address = self._address or self._environment.get("RAY_ADDRESS")
        if address not in (None, "local"):
            self._ray.init(address, **quiet)
            return
        if address is None:
            try:
                self._ray.init("auto", **quiet)
                return
            except ConnectionError:
                pass
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        needed = (self._jobs or 1) * self._resources["CPU"]
        self._ray.init(
            "local",
            num_cpus=max(cores(), int(-(-needed // 1))),
            include_dashboard=False,
            object_store_memory=OBJECTS,
            **quiet,
        )

    def _check(self) -> None:
        """A run for which no machine is large enough would wait for ever."""
        machines = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        if not any(all(has.get(name, 0) >= amount for name, amount in self._resources.items()) for has in machines):
            asked = ",".join(f"{name}={amount:g}" for name, amount in self._resources.items())
            offered = "; ".join(
                ",".join(f"{name}={has.get(name, 0):g}" for name in self._resources) for has in machines
            )
            raise ExecutorError(f"no machine of the Ray cluster has {asked}, they have {offered or 'nothing'}")

    @property
    def _remote(self) -> Any:
        asked = dict(self._resources)
        options = {"num_cpus": asked.pop("CPU"), "num_gpus": asked.pop("GPU", 0), "resources": asked}
        return self._ray.remote(max_retries=0, scheduling_strategy="SPREAD", **options)(ray_worker.make_run)


class _Running(msgspec.Struct):
    index: int
    tried: int
    task: Task


class _Batch:
    """The runs of one call."""

    def __init__(self, executor: RayExecutor, tasks: Sequence[Task], watch: Watch) -> None:
        self._executor = executor
        self._ray = executor._ray
        self._tasks = tasks
        self._watch = watch
        self._at_once = executor.at_once
        self._waiting = deque((index, 1) for index in range(len(tasks)))
        self._running: dict[Any, _Running] = {}
        self._why: dict[int, str] = {}
        self._tokens: dict[int, list[str]] = {}
        """Of all tries of each run."""
        self._records: dict[int, Record] = {}

    def run(self) -> list[Record]:
        try:
            while self._waiting or self._running:
                while self._waiting and len(self._running) < self._at_once:
                    self._start(*self._waiting.popleft())
                ready, _ = self._ray.wait(list(self._running), timeout=0.2)
                for reference in ready:
                    self._ended(reference, self._running.pop(reference))
        except BaseException:
            self._executor.cancel(list(self._running))
            raise
        return [self._records[index] for index in range(len(self._tasks))]

    def _start(self, index: int, tried: int) -> None:
        if self._watch.is_over():
            raise KeyboardInterrupt
        task = again(self._tasks[index], tried)
        task = msgspec.structs.replace(task, apart=len(self._tasks) > 1 and self._at_once > 1)
        tokens = self._tokens.setdefault(index, [])
        tokens.append(new_token())
        self._running[self._executor.submit(task, tokens[-1], tokens[:-1])] = _Running(index, tried, task)
        if tried == 1:
            self._watch.started(task, ())

    def _ended(self, reference: Any, run: _Running) -> None:
        errors = self._ray.exceptions
        try:
            answer = self._ray.get(reference)
        except errors.RayTaskError as error:
            raise ExecutorError(f"{run.task.name}: a worker of the Ray cluster failed: {error}") from error
        except errors.RayError as error:  # its worker, its machine, or its answer is lost
            self._lost(run, f"its worker was lost ({type(error).__name__})")
            return
        if answer.get("elsewhere"):
            self._executor.ship(run.task)
            self._waiting.appendleft((run.index, run.tried))
        elif answer["told"] is None:
            self._lost(run, "the process that makes it was killed")
        elif answer["told"].get("interrupted"):  # not by us: perhaps the machine is shut down
            self._lost(run, "it was asked to end on its machine")
        else:
            if "files" in answer:
                unpack(answer["files"], Path(run.task.out))
            self._keep(run, *record_of(answer["told"]))

    def _keep(self, run: _Running, record: Record, limits: Sequence[str]) -> None:
        if run.index in self._why:
            record = with_note(record, f"made in {run.tried} tries: {self._why[run.index]}", run.task.out)
        self._records[run.index] = record
        self._watch.ended(run.index, record, limits)

    def _lost(self, run: _Running, why: str) -> None:
        name = self._tasks[run.index].name
        if run.tried == TRIES:
            raise ExecutorError(f"{name}: {why}, {TRIES} times")
        self._executor.notes.append(f"{name}: {why}; it is run again")
        self._why[run.index] = why
        self._waiting.append((run.index, run.tried + 1))


class _Handlers:
    """Ray handles signals by exiting; what handled them before does so again afterwards."""

    def __enter__(self) -> None:
        self._before = {number: signal.getsignal(number) for number in INTERRUPTS}

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is threading.main_thread():
            for number, handler in self._before.items():
                if handler is not None:
                    signal.signal(number, handler)


def _imported() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ExecutorError(
            f"--executor ray needs Ray, which cannot be imported ({error}): pip install 'trueup[ray]'"
        ) from error
    return ray
