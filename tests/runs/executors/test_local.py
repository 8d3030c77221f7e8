"""Runs side by side on this machine: they overlap, stay apart, and leave nothing behind however they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from trueup.procedures.probes import Interrupted, Probes
from trueup.runs.executors import ExecutorError, executor_for
from trueup.runs.process import CommandError
from trueup.schema.bisection import Attempt
from trueup.schema.record import Record
from trueup.schema.variant import Variant

MEETS = """
import os, pathlib, sys, time
folder, name = pathlib.Path({folder!r}), os.environ["N"]
(folder / f"{{name}}.port").write_text(os.environ.get("TRUEUP_FREE_PORT", "none"))
(folder / f"{{name}}.gpus").write_text(os.environ.get("CUDA_VISIBLE_DEVICES", "none"))
end = time.monotonic() + 30
while len(list(folder.glob("*.port"))) < {wanted} and time.monotonic() < end:
    time.sleep(0.02)
sys.exit(int(name) if len(list(folder.glob("*.port"))) >= {wanted} else 99)
"""
"""Ends with the code in N once as many runs as wanted are there."""

LEAVES_A_SERVER = """
import os, pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, {handler})
server = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"], start_new_session=True)
partly = pathlib.Path({folder!r}) / f"partly-{{os.getpid()}}"
partly.write_text(f"{{os.getpid()}} {{server.pid}}")
partly.rename(pathlib.Path({folder!r}) / f"pids-{{os.getpid()}}")
{then}
"""
DRIVER = """
import sys
from trueup.procedures.probes import Probes
from trueup.runs.executors import executor_for
from trueup.schema.bisection import Attempt
with Probes(sys.argv[1:], steps=None, timeout=60, say=print, executor=executor_for("local", 2)) as probes:
    probes.run_all([Attempt(), Attempt()])
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "data.txt").write_text("data")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A folder that all runs see."""
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


def leaving(notes: Path, then: str, handler: str = "signal.SIG_DFL") -> str:
    return LEAVES_A_SERVER.format(folder=str(notes), then=then, handler=handler)


def made(script: str, jobs: int | None = 2, resources: str = "") -> Probes:
    return Probes(
        [sys.executable, "-c", script],
        steps=None,
        timeout=60,
        say=lambda text: None,
        executor=executor_for("local", jobs, resources),
    )


def numbered(*numbers: int) -> list[Attempt]:
    return [Attempt(variant=Variant(environment={"N": str(number)})) for number in numbers]


def codes(records: list[Record]) -> list[int | None]:
    return [record.exit.code for record in records]


def pids(notes: Path) -> list[int]:
    return [int(pid) for path in notes.glob("pids-*") for pid in path.read_text().split()]


def running(notes: Path) -> list[int]:
    return [
        pid for pid in pids(notes) if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    ]


def until_begun(notes: Path, count: int) -> None:
    end = time.monotonic() + 60
    while len(list(notes.glob("pids-*"))) < count:
        assert time.monotonic() < end, "the runs did not begin"
        time.sleep(0.05)


def test_two_are_made_at_once_and_come_back_in_order(work: Path, notes: Path) -> None:
    kept: dict[int, int | None] = {}
    with made(MEETS.format(folder=str(notes), wanted=2)) as probes:
        records = probes.run_all(numbered(5, 6), keep=lambda index, record: kept.update({index: record.exit.code}))
    assert codes(records) == [5, 6]
    assert kept == {0: 5, 1: 6}
    assert [(probes.folder / f"probe-{number}" / "record.json").is_file() for number in (1, 2)] == [True, True]
    ports = {path.read_text() for path in notes.glob("*.port")}
    assert len(ports) == 2
    assert "none" not in ports


def test_more_attempts_than_places_wait_for_one(work: Path, notes: Path) -> None:
    with made(MEETS.format(folder=str(notes), wanted=1)) as probes:
        assert codes(probes.run_all(numbered(3, 2, 1))) == [3, 2, 1]


@pytest.mark.parametrize(("jobs", "attempts"), [(1, (4, 5)), (2, (4,))])
def test_what_runs_alone_runs_as_ever(work: Path, notes: Path, jobs: int, attempts: tuple[int, ...]) -> None:
    """In this process's own hands, and with the port that the job asks for."""
    script = MEETS.format(folder=str(notes), wanted=1)
    script = script.replace("sys.exit(int", f"sys.exit(98 if os.getppid() != {os.getpid()} else int")
    with made(script, jobs) as probes:
        assert codes(probes.run_all(numbered(*attempts))) == list(attempts)
    assert {path.read_text() for path in notes.glob("*.port")} == {"none"}


def test_another_command_for_one_attempt(work: Path) -> None:
    other = Attempt(command=(sys.executable, "-c", "raise SystemExit(7)"))
    with made("pass") as probes:
        assert codes(probes.run_all([Attempt(), other])) == [0, 7]


def test_the_time_limit_holds_for_each(work: Path) -> None:
    with made("import os, time; time.sleep(int(os.environ['N']))") as probes:
        records = probes.run_all(numbered(0, 60), timeout=3)
    assert [record.exit.reason for record in records] == [None, "timeout"]


def test_a_command_that_cannot_be_started_ends_the_others(work: Path, notes: Path) -> None:
    script = leaving(notes, "time.sleep(60)")
    waits = "i=0; while [ $i -lt 100 ] && ! ls {0}/pids-* >/dev/null 2>&1; do sleep 0.1; i=$((i+1)); done"
    attempts = [Attempt(), Attempt(command=("sh", "-c", waits.format(notes))), Attempt(command=("no-such-program",))]
    with pytest.raises(CommandError, match="no-such-program"), made(script) as probes:
        probes.run_all(attempts)
    assert len(pids(notes)) == 2
    assert running(notes) == []


@pytest.mark.parametrize(
    ("number", "handler"), [(signal.SIGINT, "lambda *_: sys.exit(0)"), (signal.SIGTERM, "signal.SIG_IGN")]
)
def test_an_interrupt_leaves_no_process(work: Path, notes: Path, number: int, handler: str) -> None:
    def interrupt() -> None:
        until_begun(notes, 2)
        os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    threading.Thread(target=interrupt, daemon=True).start()
    with (
        pytest.raises(Interrupted),
        made(leaving(notes, "time.sleep(60)", handler)) as probes,
    ):
        probes.run_all([Attempt(), Attempt(), Attempt()])
    assert len(pids(notes)) == 4
    assert running(notes) == []
    assert list(work.glob(".trueup/*/*/probe-*/tree")) == []
    assert signal.getsignal(number) == before


def test_what_had_ended_before_the_interrupt_is_kept(work: Path, notes: Path) -> None:
    def interrupt() -> None:
        until_begun(notes, 1)
        end = time.monotonic() + 60
        while not kept and time.monotonic() < end:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    kept: list[int] = []
    waits = leaving(notes, "time.sleep(60)")
    attempts = [Attempt(command=(sys.executable, "-c", waits)), Attempt()]
    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(Interrupted), made("pass") as probes:
        probes.run_all(attempts, keep=lambda index, record: kept.append(index))
    assert kept == [1]


def test_nothing_goes_on_when_trueup_is_killed(work: Path, notes: Path) -> None:
    script = leaving(notes, "time.sleep(60)")
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, sys.executable, "-c", script], stdout=subprocess.DEVNULL, cwd=work
    )
    until_begun(notes, 2)
    driver.kill()
    driver.wait()
    end = time.monotonic() + 40
    while running(notes) and time.monotonic() < end:
        time.sleep(0.1)
    assert len(pids(notes)) == 4
    assert running(notes) == []


KILLS_ITS_KEEPER = (
    "if {always} or len(list(pathlib.Path({folder!r}).glob('pids-*'))) == 1: os.kill(os.getppid(), 9); time.sleep(60)"
)


def test_a_run_whose_process_is_killed_is_made_again(work: Path, notes: Path) -> None:
    then = KILLS_ITS_KEEPER.format(always=False, folder=str(notes))
    killing = Attempt(command=(sys.executable, "-c", leaving(notes, then)))
    with made("pass") as probes:
        records = probes.run_all([killing, Attempt()])
        told = probes.executor.notes
    assert codes(records) == [0, 0]
    assert len(pids(notes)) == 4
    assert running(notes) == []
    assert any("2 tries" in note.what for note in records[0].notes)
    assert not any("tries" in note.what for note in records[1].notes)
    assert len(told) == 1
    assert told[0].startswith("run 1: ")


def test_a_run_that_is_killed_again_and_again_is_given_up(work: Path, notes: Path) -> None:
    then = KILLS_ITS_KEEPER.format(always=True, folder=str(notes))
    killing = Attempt(command=(sys.executable, "-c", leaving(notes, then)))
    with pytest.raises(ExecutorError, match="killed 2 times"), made("pass") as probes:
        probes.run_all([killing, Attempt()])
    assert running(notes) == []


def test_each_place_has_gpus_of_its_own(work: Path, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable is set; that runs keep to it was not tried, for want of several GPUs."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7,2")
    with made(MEETS.format(folder=str(notes), wanted=2), jobs=None, resources="GPU=2") as probes:
        assert probes.executor.at_once == 2
        assert codes(probes.run_all(numbered(5, 6))) == [5, 6]
    assert {path.read_text() for path in notes.glob("*.gpus")} == {"4,5", "6,7"}


def test_runs_that_would_share_gpus_are_made_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    alone = executor_for("local", 2)
    assert alone.at_once == 1
    assert "GPU=1" in alone.notes[0]
    assert executor_for("local", 2, "GPU=0").at_once == 2
    assert executor_for("local", 4, "gpu=1").at_once == 2


def test_as_many_at_once_as_the_cores_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr("trueup.runs.executors.local.cores", lambda: 9)
    assert executor_for("local").at_once == 1
    assert executor_for("local", None, "CPU=2").at_once == 4
    assert executor_for("local", None, "CPU=20").at_once == 1
    assert executor_for("local", 3, "CPU=20").at_once == 3, "what is said counts"


@pytest.mark.parametrize(
    ("resources", "complaint"),
    [
        ("CPU", "CPU=2,GPU=1"),
        ("CPU=-1", "no amount"),
        ("GPU=0.5", "whole"),
        ("TPU=1", "--executor ray"),
        ("GPU=3", "1 GPU"),
    ],
)
def test_resources_that_are_not_there_are_refused(
    monkeypatch: pytest.MonkeyPatch, resources: str, complaint: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with pytest.raises(ExecutorError, match=complaint):
        executor_for("local", None, resources)
