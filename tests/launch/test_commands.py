"""`trueup run --` in front of the commands that people launch trainings with: each rank reports, nothing else does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trueup_runs import PYTHON, Run, plain_run, trueup_run

JOBS = Path(__file__).parent / "jobs"
TRAIN = str(JOBS / "train.py")
TWO = ("--standalone", "--nproc-per-node", "2")

COMMANDS = {
    "python script": ((PYTHON, TRAIN), 1, ()),
    "python -m package": ((PYTHON, "-m", "package"), 1, ()),
    "torchrun": (("torchrun", *TWO, TRAIN), 2, ("torchrun",)),
    "python -m torch.distributed.run": ((PYTHON, "-m", "torch.distributed.run", *TWO, TRAIN), 2, ("torchrun",)),
    "accelerate launch, one": (
        ("accelerate", "launch", "--cpu", "--num_processes", "1", TRAIN),
        1,
        ("accelerate launch",),
    ),
    "accelerate launch, two": (
        ("accelerate", "launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1", TRAIN),
        2,
        ("accelerate launch", "torchrun"),
    ),
    "subprocess": ((PYTHON, str(JOBS / "by_subprocess.py")), 1, ()),
    "torch.multiprocessing.spawn": ((PYTHON, str(JOBS / "by_spawn.py")), 2, ("torch.multiprocessing.spawn",)),
    "fork": ((PYTHON, str(JOBS / "by_fork.py")), 2, ()),
}


def trained(run: Run) -> list[tuple[int, bool, int]]:
    """(rank, whether it trained, its steps) of each rank of the record."""
    return [(rank.rank, rank.trained, rank.steps) for rank in run.record.ranks]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_rank_reports(name: str, tmp_path: Path) -> None:
    command, ranks, launchers = COMMANDS[name]
    run = trueup_run(tmp_path, *command, PYTHONPATH=str(JOBS))
    assert run.code == 0, run.stderr[-3000:]
    assert trained(run) == [(rank, True, 3) for rank in range(ranks)]
    assert run.record.launch.world_size == ranks
    assert run.record.launch.launchers == launchers
    assert run.record.actual.sharding.strategy == ("DDP" if ranks > 1 else "none")
    assert run.notes == ""


def test_output_is_that_of_the_command_alone(tmp_path: Path) -> None:
    alone = plain_run(tmp_path, PYTHON, TRAIN)
    run = trueup_run(tmp_path, PYTHON, TRAIN)
    assert alone.stdout.count("loss ") == 3
    assert (run.stdout, run.stderr) == (alone.stdout, alone.stderr)


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_workers_of_a_data_loader_are_no_ranks(way: str, tmp_path: Path) -> None:
    run = trueup_run(tmp_path, PYTHON, JOBS / "with_workers.py", way)
    assert (run.code, run.stdout) == (0, "4\n"), run.stderr[-3000:]
    assert trained(run) == [(0, True, 12)]
    assert len(list((run.folder / "events").glob("events-*"))) == 1
    assert all(sample.fraction is not None for sample in run.record.samples)


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment without trueup, which finds torch where this one has it."""
    folder = tmp_path_factory.mktemp("environments") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=120)
    (packages,) = folder.glob("lib/python*/site-packages")
    torch = plain_run(folder, PYTHON, "-c", "import torch; print(torch.__file__)").stdout
    (packages / "torch.pth").write_text(f"{Path(torch).parent.parent}\n")
    for name in ("trueup", "trueup_instrument"):
        found = plain_run(folder, folder / "bin" / "python", "-S", "-c", f"import {name}")
        assert "ModuleNotFoundError" in found.stderr
    return folder


SCRIPTS = {
    "bash, torchrun, PYTHONPATH": ("bash", f"export PYTHONPATH={JOBS}\nexec torchrun {' '.join(TWO)} -m package\n", 2),
    "sh, PYTHONPATH inline": ("sh", f"PYTHONPATH={JOBS} python -m package\n", 1),
    "bash, environment": (
        "bash",
        f". VENV/bin/activate\nexport PYTHONPATH={JOBS}\npython -m torch.distributed.run {' '.join(TWO)} -m package\n",
        2,
    ),
    "sh, environment": ("sh", f". VENV/bin/activate\nset -e\npython {TRAIN}\necho done >&2\n", 1),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_behind_a_shell_script_that_sets_up_its_own_environment(name: str, venv: Path, tmp_path: Path) -> None:
    shell, text, ranks = SCRIPTS[name]
    script = tmp_path / "launch.sh"
    script.write_text(text.replace("VENV", str(venv)))
    run = trueup_run(tmp_path, shell, script)
    assert run.code == 0, run.stderr[-3000:]
    assert trained(run) == [(rank, True, 3) for rank in range(ranks)]
    assert run.notes == ""
    if "environment" in name:
        assert run.record.environment["executable"].startswith(str(venv))


@pytest.mark.parametrize("option", ["-I", "-E", "-S"])
def test_an_isolated_interpreter_is_named_and_runs_as_it_would(option: str, tmp_path: Path) -> None:
    program = "import sys; print(sys.flags.isolated, sys.flags.no_site); sys.exit(7)"
    alone = plain_run(tmp_path, PYTHON, option, "-c", program)
    run = trueup_run(tmp_path, PYTHON, option, "-c", program)
    assert (run.code, run.stdout, run.stderr) == (7, alone.stdout, alone.stderr)
    assert run.record.exit.code == 7
    assert f"Python was started with {option}, which shuts the observer out" in run.notes


WORKER_THREAD = """
import threading, torch
def train():
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(7):
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
thread = threading.Thread(target=train)
thread.start()
thread.join()
"""


def test_a_worker_thread_that_trains_is_counted_and_not_sampled(tmp_path: Path) -> None:
    """torch's profiler, left on by a thread that ended, takes the process down when the interpreter ends."""
    (tmp_path / "job.py").write_text(WORKER_THREAD)
    run = trueup_run(tmp_path, PYTHON, tmp_path / "job.py")
    assert run.code == 0
    assert run.record.steps.count == 7
    assert run.record.samples == ()
    assert "thread other than the main one" in run.notes
