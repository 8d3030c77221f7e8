"""Small jobs that run in forked children of one process, observed or not, and what is known of each afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trueup.runs.events import Event, EventReader, Events, ProcessEvents
from trueup.runs.injection import OURS, bootstrap_folder
from trueup.runs.merge import merge
from trueup.schema.record import Record

JOBS = Path(__file__).parent / "jobs"
BETWEEN_RUNS = (*OURS, "RANK", "LOCAL_RANK", "WORLD_SIZE", "PYTHONPATH")


@dataclass(frozen=True)
class Order:
    """One job: `module.function` in the folder `jobs`, called with `arguments` in each of `ranks` processes."""

    name: str
    job: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    ranks: int = 1
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Done:
    """What a job returned in each rank, how each ended, and what was observed of it."""

    results: tuple[Any, ...]
    exits: tuple[int, ...]
    events: Events

    @property
    def result(self) -> Any:
        return self.results[0]

    @property
    def record(self) -> Record:
        return merge(self.events)

    @property
    def notes(self) -> str:
        return "\n".join(note.what for note in self.record.notes)

    def of(self, kind: str, rank: int = 0) -> list[Event]:
        """The events of one kind that one rank wrote."""
        found = [log for log in self.events.processes if (log.process.get("rank") or 0) == rank]
        assert len(found) == 1, [log.process for log in self.events.processes]
        return found[0].of(kind)


def run_jobs(
    folder: Path, orders: Iterable[Order], *, observed: bool = True, start_in_child: bool = False, timeout: float = 540
) -> dict[str, Done]:
    """Run the jobs one after the other; the names of the orders lead to what is known of them.

    Observation begins with the parent's interpreter, as behind `trueup run`, or `start_in_child` in each child, with
    variables and a folder of events of its own.
    """
    folder.mkdir(parents=True)
    orders = list(orders)
    from_start = observed and not start_in_child
    variables = {name: value for name, value in os.environ.items() if name not in BETWEEN_RUNS}
    variables |= {
        "HF_HUB_OFFLINE": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
    }
    if from_start:
        variables |= {"PYTHONPATH": str(bootstrap_folder()), "TRUEUP_EVENTS": str(folder / "events")}
    sitecustomize = str(bootstrap_folder() / "sitecustomize.py") if start_in_child and observed else None
    spoken = [
        {
            "name": order.name,
            "job": order.job,
            "arguments": dict(order.arguments),
            "ranks": order.ranks,
            "variables": {
                **order.variables,
                **({"TRUEUP_EVENTS": str(_events_of(folder, order.name))} if start_in_child and observed else {}),
            },
            "start": sitecustomize,
        }
        for order in orders
    ]
    (folder / "orders.json").write_text(json.dumps(spoken))
    command = [sys.executable, str(JOBS / "forking.py"), str(folder / "orders.json"), str(folder)]
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, timeout=timeout, check=False
    )
    (folder / "output.txt").write_text(done.stdout + done.stderr)
    assert done.returncode == 0, done.stderr[-4000:]
    logs = _logs(folder / "events") if from_start else []
    return {order.name: _done(folder, order, logs if from_start else None) for order in orders}


def _done(folder: Path, order: Order, logs: list[ProcessEvents] | None) -> Done:
    told = [folder / f"{order.name}-{rank}.json" for rank in range(order.ranks)]
    answers = [json.loads(file.read_text()) if file.exists() else {} for file in told]
    exits = tuple(int(file.with_suffix(".exit").read_text()) for file in told)
    if logs is None:
        events = Events(processes=_logs(_events_of(folder, order.name)))
    else:
        pids = {answer.get("pid") for answer in answers}
        events = Events(processes=[log for log in logs if log.process.get("pid") in pids])
    return Done(tuple(answer.get("result") for answer in answers), exits, events)


def _events_of(folder: Path, name: str) -> Path:
    return folder / f"{name}.events"


def _logs(folder: Path) -> list[ProcessEvents]:
    reader = EventReader(folder)
    reader.read()
    return reader.events.processes
