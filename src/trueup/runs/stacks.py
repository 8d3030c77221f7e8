"""Python stacks of a job that does not end: by py-spy where it may look, else by asking each process itself."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from trueup.runs.redaction import redacted_text

PY_SPY_SECONDS = 10.0
ANSWER_SECONDS = 2.0
WHOLE_SECONDS = 60.0
"""However many processes there are, the dump takes no longer."""


def stack_signal() -> int | None:
    """The real-time signal at which an observed process writes its stacks; None where there is none (macOS)."""
    first = getattr(signal, "SIGRTMIN", None)
    return None if first is None else int(first) + 7


def dump_stacks(processes: list[psutil.Process], events: Path, into: Path | None) -> dict[int, str]:
    """{pid: stacks} of those processes whose stacks could be had, written also to `into/<pid>.txt`."""
    deadline = time.monotonic() + WHOLE_SECONDS
    stacks: dict[int, str] = {}
    unanswered = []
    for process in processes:
        text = _by_py_spy(process.pid) if time.monotonic() < deadline else None
        if text is None:
            unanswered.append(process)
        else:
            stacks[process.pid] = text
    stacks.update(_by_signal(unanswered, events))
    if into is not None:
        _write(stacks, into)
    return stacks


def _write(stacks: dict[int, str], into: Path) -> None:
    try:
        into.mkdir(parents=True, exist_ok=True)
        for pid, text in stacks.items():
            (into / f"{pid}.txt").write_text(text, encoding="utf-8")
    except OSError:
        pass  # a full disk: the record still has them


def _by_py_spy(pid: int) -> str | None:
    program = shutil.which("py-spy", path=os.path.dirname(sys.executable)) or shutil.which("py-spy")
    if program is None:
        return None
    try:
        result = subprocess.run(
            [program, "dump", "--pid", str(pid)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PY_SPY_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return redacted_text(result.stdout.decode(errors="replace")) if result.returncode == 0 else None


def _by_signal(processes: list[psutil.Process], events: Path) -> dict[int, str]:
    """Stacks that processes write themselves; only those that have a file for it, others would die of the signal."""
    number = stack_signal()
    if number is None:
        return {}
    asked: dict[int, tuple[Path, int]] = {}
    for process in processes:
        file = events / f"stacks-{process.pid}.txt"
        try:
            asked[process.pid] = file, file.stat().st_size
            process.send_signal(number)
        except (OSError, psutil.Error):
            asked.pop(process.pid, None)
    return {pid: text for pid, (file, size) in asked.items() if (text := _answer(file, size))}


def _answer(file: Path, size: int) -> str | None:
    """What was added to `file` beyond `size`, once it has stopped growing."""
    deadline = time.monotonic() + ANSWER_SECONDS
    before = size
    while time.monotonic() < deadline:
        time.sleep(0.05)
        now = file.stat().st_size
        if now > size and now == before:
            break
        before = now
    return redacted_text(file.read_bytes()[size:].decode(errors="replace")) or None
