"""A command behaves under `run_process` as it does alone: exit code, output, input, signals."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from trueup.runs.process import CommandError, resolved

DRIVER = """
import dataclasses, json, os, sys
from pathlib import Path
from trueup.runs.injection import inject
from trueup.runs.process import run_process

folder, timeout, *command = sys.argv[1:]
folder = Path(folder)
with inject(os.environ, events=folder / "events", bootstrap=folder / "bootstrap") as injection:
    outcome = run_process(command, injection.environment, run_id=injection.run_id, bootstrap=injection.bootstrap,
                          folder=folder, events=folder / "events", timeout=float(timeout) or None, grace=0.5)
(folder / "outcome.json").write_text(json.dumps(dataclasses.asdict(outcome)))
sys.exit(outcome.code)
"""
PYTHON = sys.executable


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "events").mkdir()
    return tmp_path


def driver(folder: Path, *command: str, timeout: float = 0) -> list[str]:
    """The command line of a process that runs `command` under observation."""
    return [PYTHON, "-c", DRIVER, str(folder), str(timeout), *command]


def run(
    folder: Path, *command: str, timeout: float = 0, stdin: bytes = b"", **variables: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        driver(folder, *command, timeout=timeout),
        input=stdin,
        capture_output=True,
        timeout=120,
        check=False,
        env={**os.environ, **variables},
    )


def outcome(folder: Path) -> dict[str, object]:
    return dict(json.loads((folder / "outcome.json").read_text()))


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Wait for a condition, and fail when it does not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("script", "code", "name"), [("exit 0", 0, None), ("exit 7", 7, None), ("kill -KILL $$", 137, "SIGKILL")]
)
def test_the_exit_code_is_that_of_a_shell(folder: Path, script: str, code: int, name: str | None) -> None:
    assert run(folder, "sh", "-c", script).returncode == code
    assert outcome(folder)["signal"] == name
    assert outcome(folder)["reason"] is None


def test_output_passes_byte_for_byte_and_is_captured(folder: Path) -> None:
    write = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 9); sys.stderr.buffer.write(b'\\xff\\0 end')"
    result = run(folder, PYTHON, "-c", write)
    assert result.stdout == (folder / "stdout.txt").read_bytes() == bytes(range(256)) * 9
    assert result.stderr == (folder / "stderr.txt").read_bytes() == b"\xff\0 end"


def test_a_hundred_megabytes_pass_through_both_pipes(folder: Path) -> None:
    write = "import sys\nfor _ in range(50): sys.stdout.write('o' * 2**20); sys.stderr.write('e' * 2**20)"
    result = run(folder, PYTHON, "-c", write)
    assert result.returncode == 0
    assert (len(result.stdout), len(result.stderr)) == (50 * 2**20, 50 * 2**20)
    assert set(result.stdout) == {ord("o")}
    assert (folder / "stderr.txt").stat().st_size == 50 * 2**20


def test_the_order_of_both_outputs_stays_when_they_go_to_one_place(folder: Path) -> None:
    script = "for i in 1 2 3 4 5 6 7 8 9; do echo out $i; echo err $i >&2; done"
    command = driver(folder, "sh", "-c", script)
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=True)
    assert result.stdout.decode().splitlines() == [f"{name} {i}" for i in range(1, 10) for name in ("out", "err")]


def test_stdin_reaches_the_command(folder: Path) -> None:
    assert run(folder, "cat", stdin=b"some\0 input").stdout == b"some\0 input"


def test_a_reader_that_goes_ends_the_writer(folder: Path) -> None:
    command = " ".join(f"'{word}'" for word in driver(folder, "yes"))
    result = subprocess.run(
        ["bash", "-c", f"{command} | head -1; echo ${{PIPESTATUS[0]}}"], capture_output=True, timeout=60, check=True
    )
    assert result.stdout.split() == [b"y", b"141"]  # 128 + SIGPIPE, as without us


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2])
def test_signals_reach_the_command(folder: Path, number: signal.Signals) -> None:
    script = f"trap 'echo got it; exit 9' {number.name.removeprefix('SIG')}; echo ready; while :; do sleep 0.05; done"
    process = subprocess.Popen(driver(folder, "sh", "-c", script), stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    rest, _ = process.communicate(timeout=60)
    assert (rest, process.returncode) == (b"got it\n", 9)
    interrupting = number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    assert outcome(folder)["reason"] == ("interrupted" if interrupting else None)


def test_a_signal_ignored_by_nohup_stays_ignored(folder: Path) -> None:
    script = "echo ready; read line; echo went on"
    process = subprocess.Popen(
        ["nohup", *driver(folder, "sh", "-c", script)], stdout=subprocess.PIPE, stdin=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGHUP)
    rest, _ = process.communicate(b"line\n", timeout=60)
    assert (rest, process.returncode) == (b"went on\n", 0)


def test_a_terminal_stays_a_terminal_of_the_same_size(folder: Path) -> None:
    program = "import os, sys; print(os.get_terminal_size(1).columns, sys.stderr.isatty()); print('second')"
    pid, master = pty.fork()
    if pid == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 77, 0, 0))
        os.execv(PYTHON, driver(folder, PYTHON, "-c", program))
    output = read_all(master)
    os.waitpid(pid, 0)
    assert output == b"77 True\r\nsecond\r\n"
    assert (folder / "stdout.txt").read_bytes() == b"77 True\nsecond\n"


def read_all(master: int) -> bytes:
    output = b""
    while select.select([master], [], [], 30)[0]:
        try:
            data = os.read(master, 1000)
        except OSError:
            break
        if not data:
            break
        output += data
    return output


OUTSIDER = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1], "w").write(str(os.getpid()))
time.sleep(600)
"""


START_OUTSIDER = """
import os, subprocess, sys, time
code, file = sys.argv[1:]
subprocess.Popen([sys.executable, "-c", code, file], start_new_session=True)
while not os.path.exists(file) or not os.path.getsize(file):
    time.sleep(0.01)
print("started", flush=True)
"""


def start_outsider(folder: Path, then: str) -> list[str]:
    """A command that starts a process in a session of its own that ignores SIGTERM, and then does `then`."""
    return [PYTHON, "-c", START_OUTSIDER + then, OUTSIDER, str(folder / "pid")]


def test_a_timeout_shows_the_stacks_and_leaves_nothing_running(folder: Path) -> None:
    result = run(
        folder, *start_outsider(folder, "def waiting_for_ever(): time.sleep(600)\nwaiting_for_ever()"), timeout=3
    )
    outsider = int((folder / "pid").read_text())
    assert result.returncode == 124
    assert outcome(folder)["reason"] == "timeout"
    assert not psutil.pid_exists(outsider) or psutil.Process(outsider).status() == psutil.STATUS_ZOMBIE
    stacks = {file.stem: file.read_text() for file in (folder / "stacks").iterdir()}
    assert str(outsider) in stacks
    assert any("waiting_for_ever" in text for text in stacks.values())
    assert f"The stacks of {len(stacks)} Python processes" in str(outcome(folder)["notes"])


def test_stacks_come_by_signal_where_py_spy_is_not_to_be_had(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trueup.runs import stacks

    monkeypatch.setattr(stacks, "_by_py_spy", lambda pid: None)
    program = (
        "import faulthandler, os, signal, sys, time\n"
        "file = open(sys.argv[1] + f'/stacks-{os.getpid()}.txt', 'w')\n"
        "faulthandler.register(signal.SIGRTMIN + 7, file, all_threads=True)\n"
        "def sleeping_here(): print('ready', flush=True); time.sleep(600)\n"
        "sleeping_here()"
    )
    answering = subprocess.Popen([PYTHON, "-c", program, str(folder)], stdout=subprocess.PIPE)
    other = subprocess.Popen(["sleep", "600"])
    try:
        assert answering.stdout is not None
        assert answering.stdout.readline() == b"ready\n"
        processes = [psutil.Process(answering.pid), psutil.Process(other.pid)]
        found = stacks.dump_stacks(processes, folder, folder / "stacks")
        assert list(found) == [answering.pid]
        assert "sleeping_here" in (folder / "stacks" / f"{answering.pid}.txt").read_text()
        assert other.poll() is None, "a process that did not prepare for the signal would die of it"
    finally:
        for process in (answering, other):
            process.kill()
            process.wait()


def test_an_output_that_a_daemon_holds_open_does_not_hang_us(folder: Path) -> None:
    result = run(folder, *start_outsider(folder, ""))
    outsider = int((folder / "pid").read_text())
    try:
        assert (result.returncode, result.stdout) == (0, b"started\n")
        assert psutil.pid_exists(outsider), "a process that the command left behind on purpose is not ours to end"
        assert str(outsider) in str(outcome(folder)["notes"])
    finally:
        os.kill(outsider, signal.SIGKILL)


def test_the_tree_remembers_who_was_not_observable(folder: Path) -> None:
    wait = "import time; time.sleep(1)"
    script = f"{PYTHON} -I -c '{wait}' & env -i {PYTHON} -c '{wait}' & PYTHONPATH=. {PYTHON} -c '{wait}' & wait"
    run(folder, "sh", "-c", script)
    seen = outcome(folder)["sightings"]
    assert isinstance(seen, list)
    pythons = [one for one in seen if wait in one["command"]]
    assert {(one["command"][1], one["has_events"], one["has_bootstrap"]) for one in pythons} == {
        ("-I", True, True),
        ("-c", False, False),
        ("-c", True, False),
    }
    emptied, replaced = (
        one for has in (False, True) for one in pythons if one["command"][1] == "-c" and one["has_events"] is has
    )
    assert emptied["inherited"] < 0.5 < replaced["inherited"]
    assert (emptied["python_path"], replaced["python_path"]) == (None, ".")


def test_a_script_without_a_first_line_runs_as_in_a_shell(folder: Path) -> None:
    script = folder / "script"
    script.write_text('echo "it runs with $1"')
    script.chmod(0o755)
    assert run(folder, str(script), "this").stdout == b"it runs with this\n"


def test_what_cannot_be_started_is_said_like_a_shell(folder: Path) -> None:
    (folder / "plain").write_text("")
    for command, code, words in (
        ("no-such-command", 127, "command not found"),
        (str(folder / "plain"), 126, "not executable"),
        (str(folder), 126, "folder"),
    ):
        with pytest.raises(CommandError, match=words) as error:
            resolved([command], os.environ["PATH"])
        assert error.value.code == code
    with pytest.raises(CommandError, match="usage"):
        resolved([], os.environ["PATH"])


GUARDED = """
import os, sys
from pathlib import Path
from trueup.runs.injection import inject
from trueup.runs.process import run_process

folder, *command = sys.argv[1:]
folder = Path(folder)
with inject(os.environ, events=folder / "events", bootstrap=folder / "bootstrap") as injection:
    run_process(command, injection.environment, run_id=injection.run_id, bootstrap=injection.bootstrap,
                folder=folder, events=folder / "events", grace=0.5, pass_output=False, ends_all=True)
"""


@pytest.mark.parametrize("ignores", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN); "])
def test_a_probe_ends_with_its_trueup_also_when_that_is_killed(ignores: str, tmp_path: Path) -> None:
    script = f"import os, signal, time; {ignores}print(os.getpid(), flush=True); time.sleep(300)"
    driver = subprocess.Popen([PYTHON, "-c", GUARDED, str(tmp_path), PYTHON, "-c", script])
    printed = tmp_path / "stdout.txt"
    until(lambda: printed.is_file() and printed.read_text().endswith("\n"))
    job = psutil.Process(int(printed.read_text()))
    driver.kill()
    driver.wait()
    until(lambda: not job.is_running() or job.status() == psutil.STATUS_ZOMBIE)
