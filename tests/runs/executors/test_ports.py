"""Jobs that ask for one port do not meet when they run side by side."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from trueup.procedures.probes import Probes
from trueup.runs.executors import executor_for
from trueup.schema.bisection import Attempt

SUM = """
import os, sys, time
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def rank(number):
    if "RANK" not in os.environ:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29417", RANK=str(number), WORLD_SIZE="2")
    dist.init_process_group("gloo")
    total = torch.ones(())
    dist.all_reduce(total)
    folder = os.environ["TOGETHER"]
    open(os.path.join(folder, f"{os.getpid()}"), "w").close()
    end = time.monotonic() + 60
    while len(os.listdir(folder)) < 4 and time.monotonic() < end:
        time.sleep(0.05)
    dist.barrier()
    assert len(os.listdir(folder)) == 4, "the jobs did not overlap"
    assert total == 2
    dist.destroy_process_group()

if __name__ == "__main__":
    rank(0) if "RANK" in os.environ else mp.spawn(rank, nprocs=2)
"""
LINEAR = """
import torch
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters())
model(torch.ones(2)).sum().backward()
optimizer.step()
"""
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29417", "sum.py")


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "together").mkdir()
    (tmp_path / "work" / "sum.py").write_text(SUM)
    (tmp_path / "work" / "linear.py").write_text(LINEAR)
    monkeypatch.setenv("TOGETHER", str(tmp_path / "together"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


@pytest.mark.slow
@pytest.mark.parametrize("command", [TORCHRUN, (sys.executable, "sum.py")], ids=["torchrun", "spawn"])
def test_two_jobs_of_one_port_run_side_by_side(work: Path, command: tuple[str, ...]) -> None:
    with Probes(command, steps=None, timeout=200, say=print, executor=executor_for("local", 2)) as probes:
        records = probes.run_all([Attempt(), Attempt()])
        printed = [path.read_text() for path in sorted(probes.folder.glob("probe-*/stderr.txt"))]
    assert [record.exit.code for record in records] == [0, 0], printed


@pytest.mark.slow
def test_a_remedy_that_nobody_asked_for_is_not_said_to_do_nothing(work: Path) -> None:
    with Probes(
        [sys.executable, "linear.py"], steps=None, timeout=200, say=print, executor=executor_for("local", 2)
    ) as probes:
        records = probes.run_all([Attempt(), Attempt()])
        files = [path.read_text() for path in probes.folder.glob("probe-*/record.json")]
    assert [record.steps.count for record in records] == [1, 1]
    assert [record.notes for record in records] == [(), ()]
    assert not any("nothing was changed" in text for text in files)
