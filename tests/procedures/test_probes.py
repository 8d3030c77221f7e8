"""The runs of a procedure end with whoever made them, and leave no copy behind."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from trueup.procedures.probes import Interrupted, Probes
from trueup.runs import probe as probe_module
from trueup.runs.probe import ProbeError
from trueup.schema.variant import Variant

SAVES_AND_ENDS_WELL = """
import os, signal, sys, time
signal.signal(signal.{name}, lambda *_: sys.exit(0))
os.kill(os.getppid(), signal.{name})
time.sleep(60)
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a few files."""
    for name in "abc":
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def probes(*command: str) -> Probes:
    return Probes(command, steps=None, timeout=60, say=lambda text: None)


def trees(work: Path) -> list[Path]:
    return list(work.glob(".trueup/fix/*/probe-*/tree"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_while_the_folder_is_copied(work: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    handler = signal.getsignal(number)
    copied = []

    def copy(source: str, target: str) -> None:
        copied.append(shutil.copyfile(source, target))
        os.kill(os.getpid(), number)

    monkeypatch.setattr(shutil, "copy2", copy)
    with pytest.raises(Interrupted), probes(sys.executable, "-c", "pass") as made:
        made.run(Variant())
    assert len(copied) == 1
    assert trees(work) == []
    assert signal.getsignal(number) == handler


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_job_that_ends_well_when_asked_to_end_is_not_run_again(work: Path, name: str) -> None:
    with pytest.raises(Interrupted), probes(sys.executable, "-c", SAVES_AND_ENDS_WELL.format(name=name)) as made:
        made.run(Variant())
    assert trees(work) == []


LEAVES_A_SERVER = """
import os, pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, {handler})
server = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
pathlib.Path({note!r}).write_text(str(server.pid))
{then}
"""
ASKS_AND_WAITS = "os.kill(os.getppid(), signal.SIGTERM); time.sleep(60)"


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("handler", ["lambda *_: sys.exit(0)", "signal.SIG_IGN"])
def test_a_signal_ends_all_of_the_job_also_what_does_not_listen(
    work: Path, handler: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    note = tmp_path_factory.mktemp("outside") / "server"
    script = LEAVES_A_SERVER.format(handler=handler, note=str(note), then=ASKS_AND_WAITS)
    started = time.monotonic()
    with pytest.raises(Interrupted), probes(sys.executable, "-c", script) as made:
        made.run(Variant())
    assert time.monotonic() - started < 50
    assert gone(int(note.read_text()))
    assert trees(work) == []


def test_what_a_run_leaves_running_does_not_meet_the_next_run(
    work: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    note = tmp_path_factory.mktemp("outside") / "server"
    script = LEAVES_A_SERVER.format(handler="signal.SIG_DFL", note=str(note), then="")
    with probes(sys.executable, "-c", script) as made:
        assert made.run(Variant()).exit.code == 0
        assert gone(int(note.read_text()))


def test_a_refused_folder_leaves_no_part_of_a_copy(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_module, "ENTRIES", 2)
    with pytest.raises(ProbeError, match=r"holds the job alone$"), probes(sys.executable, "-c", "pass") as made:
        made.run(Variant())
    assert trees(work) == []


def test_a_folder_that_the_job_made_read_only_goes_too(work: Path) -> None:
    script = "import os; os.mkdir('cache'); open('cache/x', 'w').close(); os.chmod('cache', 0o555)"
    with probes(sys.executable, "-c", script) as made:
        assert made.run(Variant()).exit.code == 0
    assert trees(work) == []
