"""Runs the user's command: its output, signals and exit code pass through; its whole process tree is watched."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from trueup.runs.guard import Guard
from trueup.runs.outcome import Outcome
from trueup.runs.signals import Forwarding
from trueup.runs.stacks import dump_stacks
from trueup.runs.streams import Stream, same_file
from trueup.runs.tree import ProcessTree, Sighting

TIMEOUT_CODE = 124
TICK = 1.0
"""Seconds between two looks at the process tree and the events of a job that has been running for a while."""


FAREWELL = 1.0
"""Seconds that children of the command may need to notice its end; multiprocessing's resource tracker does a little."""
UNKILLABLE = 10.0
"""Seconds to wait for a command that was killed; one that hangs in the kernel is left to it."""


class CommandError(Exception):
    """The command cannot be started; `code` is the exit code a shell would give."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def resolved(command: Sequence[str], path: str | None) -> str:
    """The file that `command` starts; raises CommandError like a shell when there is none."""
    if not command or not command[0]:
        raise CommandError("no command to run; usage: trueup run [options] -- COMMAND [ARGUMENTS]", 2)
    name = command[0]
    found = shutil.which(name, path=path)
    if found is None:
        if os.sep in name and os.path.exists(name):
            kind = "is a folder" if os.path.isdir(name) else "is not executable"
            raise CommandError(f"{name} {kind}", 126)
        raise CommandError(f"{name}: command not found", 127)
    return found


def run_process(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    run_id: str,
    bootstrap: Path,
    folder: Path | None,
    events: Path,
    cwd: Path | None = None,
    timeout: float | None = None,
    grace: float = 5.0,
    pass_output: bool = True,
    ends_all: bool = False,
    on_tick: Callable[[], None] = lambda: None,
) -> Outcome:
    """Run `command` to its end.

    It runs in `cwd`, by default ours. Output goes to ours and input comes from ours, unless `pass_output` is False, and
    output goes to `folder/stdout.txt` and `folder/stderr.txt` (only the first where both of ours lead to one place, so
    that their order stays); without a `folder` it is simply inherited.
    After `timeout` seconds the Python stacks of the tree are written to `folder/stacks` and every process of the tree
    is ended, by force after `grace` seconds. With `ends_all` so is what still runs `grace` seconds after a signal to
    end, what the command leaves running, and its process group where this process is killed. `on_tick` is called about
    once a second. Raises CommandError when the command cannot be started.
    """
    started = time.monotonic()
    streams = _open_streams(folder, pass_output)
    outputs = [streams[0], streams[-1]] if streams else []
    with Forwarding(streams) as forwarding, ExitStack() as guarded:
        try:
            process = _start(command, environment, [stream.child_end for stream in outputs], pass_output, cwd)
        except BaseException:
            for stream in streams:
                stream.abandon()
            raise
        forwarding.to_group(process.pid)
        if ends_all:
            guarded.enter_context(Guard(process.pid, grace))
        for stream in streams:
            stream.start()
        ended = threading.Event()
        threading.Thread(target=_wait, args=(process, ended), name="trueup-wait", daemon=True).start()
        tree = ProcessTree(process.pid, run_id, str(bootstrap))
        stacks: dict[int, str] | None = None
        asked: float | None = None
        delay = 0.05
        while not ended.wait(_until(started, timeout, delay)):
            tree.look()
            on_tick()
            delay = min(2 * delay, TICK)
            if timeout is not None and time.monotonic() - started >= timeout:
                stacks = dump_stacks(tree.pythons(), events, folder / "stacks" if folder else None)
                tree.end(grace)
                break
            if ends_all and forwarding.interrupted:
                asked = time.monotonic() if asked is None else asked
                if time.monotonic() - asked >= grace:
                    tree.end(grace)
                    break
        ended.wait(None if stacks is None and asked is None else UNKILLABLE)
        forwarding.stop()
        duration = time.monotonic() - started
        if ends_all and forwarding.interrupted:
            tree.end(grace)
        for stream in streams:
            stream.finish()
    outcome = _outcome(process.returncode, timed_out=stacks is not None, interrupted=forwarding.interrupted)
    outcome.pid = process.pid
    outcome.duration_s = duration
    outcome.stacks = stacks or {}
    if stacks and folder is not None:
        outcome.notes.append(f"The stacks of {len(stacks)} Python processes at the timeout are in {folder / 'stacks'}")
    outcome.notes += [note for stream in streams for note in stream.notes]
    outcome.notes += _left_running(tree, any(stream.held_open for stream in streams))
    if ends_all:
        tree.end(grace)
    outcome.sightings = _with_root(tree.sightings, process.pid, command)
    return outcome


def _open_streams(folder: Path | None, pass_output: bool) -> list[Stream]:
    if folder is None:
        return []
    if not pass_output:
        return [Stream(None, folder / "stdout.txt"), Stream(None, folder / "stderr.txt")]
    if same_file(1, 2):
        return [Stream(1, folder / "stdout.txt")]
    return [Stream(1, folder / "stdout.txt"), Stream(2, folder / "stderr.txt")]


def _start(
    command: Sequence[str], environment: Mapping[str, str], outputs: list[int], pass_output: bool, cwd: Path | None
) -> subprocess.Popen[bytes]:
    inherited = None if pass_output else subprocess.DEVNULL
    stdout, stderr = outputs or (inherited, inherited)
    file = resolved(command, environment.get("PATH"))
    words = list(command)
    while True:
        try:
            return subprocess.Popen(
                words, env=environment, cwd=cwd, stdin=inherited, stdout=stdout, stderr=stderr, start_new_session=True
            )
        except OSError as error:
            if error.errno == errno.ENOEXEC and words[0] != "/bin/sh":
                words = ["/bin/sh", file, *command[1:]]  # a script without a first line, as a shell would run it
            elif error.errno == errno.ENOENT:
                message = f"{command[0]}: the interpreter that its first line names is missing"
                raise CommandError(message, 127) from error
            else:
                raise CommandError(f"{command[0]} cannot be started: {error.strerror}", 126) from error


def _wait(process: subprocess.Popen[bytes], ended: threading.Event) -> None:
    process.wait()
    ended.set()


def _until(started: float, timeout: float | None, delay: float) -> float:
    """Seconds to wait now: `delay`, or less when the timeout comes before."""
    if timeout is None:
        return delay
    return max(0.0, min(delay, started + timeout - time.monotonic()))


def _outcome(returncode: int | None, *, timed_out: bool, interrupted: bool) -> Outcome:
    name = None
    if returncode is not None and returncode < 0:
        try:
            name = signal.Signals(-returncode).name
        except ValueError:
            name = f"signal {-returncode}"
    if timed_out or returncode is None:
        return Outcome(code=TIMEOUT_CODE, signal=name, reason="timeout")
    code = 128 - returncode if returncode < 0 else returncode
    return Outcome(code=code, signal=name, reason="interrupted" if interrupted and code != 0 else None)


def _with_root(sightings: list[Sighting], root: int, command: Sequence[str]) -> list[Sighting]:
    """What was seen, with the command itself, which may have ended before it could be looked at."""
    seen = next((one for one in sightings if one.pid == root), None)
    if seen is None:
        return [Sighting(root, tuple(command)), *sightings]
    seen.command = seen.command or tuple(command)
    return sightings


def _left_running(tree: ProcessTree, held_open: bool) -> list[str]:
    deadline = time.monotonic() + FAREWELL
    while (left := [process.pid for process in tree.alive()]) and time.monotonic() < deadline:
        time.sleep(0.05)
    if not left:
        return []
    numbers = ", ".join(map(str, left[:5])) + (", ..." if len(left) > 5 else "")
    effect = "; they held its output open, which is not read any more" if held_open else ""
    return [f"{len(left)} processes of the command still run after its end (pid {numbers}){effect}"]
