"""Makes runs on a Ray cluster of two machines on this one, as `python ray_driver.py SCENARIO FOLDER`; prints JSON.

Each run writes its process ids below FOLDER, waits where the scenario acts on it, and ends with the code in N.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from ray.cluster_utils import Cluster

from trueup.procedures.probes import Interrupted, Probes
from trueup.runs.executors import ExecutorError, executor_for
from trueup.runs.executors.ray import RayExecutor
from trueup.schema.bisection import Attempt
from trueup.schema.variant import Variant

JOB = """
import os, pathlib, subprocess, sys, time
folder, name = pathlib.Path({folder!r}), os.environ["N"]
tries = len(list(folder.glob(f"{{name}}-*"))) + 1
server = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"], start_new_session=True)
partly = folder / f"partly-{{name}}-{{tries}}"
partly.write_text(f"{{os.getpid()}} {{server.pid}} {{os.getcwd()}} {{open('beside.txt').read()}}")
(folder / f"port-{{name}}-{{tries}}").write_text(os.environ["TRUEUP_FREE_PORT"])
(folder / f"threads-{{name}}-{{tries}}").write_text(os.environ["OMP_NUM_THREADS"])
partly.rename(folder / f"{{name}}-{{tries}}")
end = time.monotonic() + 60
while {waits!r} and not (folder / "done").exists() and time.monotonic() < end:
    time.sleep(0.05)
sys.exit(int(name))
"""


def main(scenario: str, folder: Path) -> dict[str, object]:
    waits = scenario in ("worker", "machine", "keeper", "interrupt", "terminal")
    script = JOB.format(folder=str(folder), waits=waits)
    attempts = [Attempt(variant=Variant(name=f"n{number}", environment={"N": str(number)})) for number in (0, 3)]
    os.environ["OMP_NUM_THREADS"] = "as in the shell"
    own = scenario == "terminal"
    cluster = Cluster(initialize_head=not own, head_node_args={"num_cpus": 1, "include_dashboard": False})
    node = None if own else cluster.add_node(num_cpus=1)
    resources = "GPU=3" if scenario == "too much" else ""
    executor = executor_for("ray", 2 if own else None, resources, "local" if own else cluster.address)
    assert isinstance(executor, RayExecutor)
    executor.shared_disk = scenario != "shipped"
    acts: dict[str, Callable[[], object]] = {
        "worker": lambda: worker_of(started(folder, "3-1")).kill(),
        "keeper": lambda: keeper_of(started(folder, "3-1")).kill(),
        "machine": lambda: cluster.remove_node(node, allow_graceful=False),
        "interrupt": lambda: os.kill(os.getpid(), signal.SIGINT),
        "terminal": lambda: os.killpg(os.getpgrp(), signal.SIGINT),
    }
    told: dict[str, object] = {}
    with Probes(
        [sys.executable, "-c", script], steps=None, timeout=100, say=lambda _: None, executor=executor
    ) as probes:
        try:
            told["at_once"] = executor.at_once
        except ExecutorError as error:
            attempts, told["refused"] = [], str(error)
        threading.Thread(target=act, args=(folder, acts.get(scenario)), daemon=True).start()
        try:
            records = probes.run_all(attempts)
            told["codes"] = [record.exit.code for record in records]
            told["notes"] = [[note.what for note in record.notes] for record in records]
            told["output"] = [(each / "record.json").is_file() for each in sorted(probes.folder.glob("probe-*"))]
        except Interrupted:
            told["interrupted"] = True
        told["left"] = [pid for pid in processes(folder) if is_running(pid)]
    told["trees"] = [str(tree) for tree in probes.folder.glob("probe-*/tree")]
    told["executor"] = executor.notes
    told["left after all"] = [pid for pid in processes(folder) if is_running(pid)]
    told["places"] = [path.read_text().split(" ", 2)[2] for path in sorted(folder.glob("[0-9]-*"))]
    told["children"] = len(psutil.Process().children(recursive=True)) if own else 0
    told["ports"] = len({path.read_text() for path in folder.glob("port-*")})
    told["threads"] = [path.read_text() for path in folder.glob("threads-*")]
    if not own:
        cluster.shutdown()
    return told


def act(folder: Path, action: Callable[[], object] | None) -> None:
    """Do it once both runs are there, and let them go on once the lost one has begun anew."""
    if action is not None:
        started(folder, "0-1")
        started(folder, "3-1")
        action()
        started(folder, "3-2")
        (folder / "done").touch()


def started(folder: Path, name: str) -> int:
    """The process id of a run that has begun."""
    while not (folder / name).exists():
        time.sleep(0.05)
    return int((folder / name).read_text().split()[0])


def keeper_of(pid: int) -> psutil.Process:
    """The process that makes a run."""
    keeper = psutil.Process(pid).parent()
    assert keeper is not None
    assert keeper.environ().get("TRUEUP_ATTEMPT"), keeper
    return keeper


def worker_of(pid: int) -> psutil.Process:
    """The Ray worker behind a run: it holds the other end of its keeper's pipe."""
    keeper = keeper_of(pid)
    pipe = os.readlink(f"/proc/{keeper.pid}/fd/0")
    for process in psutil.process_iter():
        try:
            names = [os.readlink(each) for each in Path(f"/proc/{process.pid}/fd").iterdir()]
        except OSError:
            continue
        if pipe in names and process.pid != keeper.pid:
            return process
    raise AssertionError("nobody holds the pipe")


def is_running(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def processes(folder: Path) -> list[int]:
    return [int(pid) for path in folder.glob("[0-9]-*") for pid in path.read_text().split(" ", 2)[:2]]


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]))))
