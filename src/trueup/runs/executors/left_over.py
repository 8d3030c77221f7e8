"""The processes of this machine that belong to runs which should be over."""

from __future__ import annotations

import os
import time
from collections.abc import Collection

import psutil

from trueup.runs.executors.keeping import TOKEN
from trueup.runs.tree import is_executing

AFTER_KILL = 5.0
"""Seconds to wait for processes that were killed; one that hangs in the kernel is left to it."""


def end_left_over(tokens: Collection[str], patience: float) -> None:
    """Wait `patience` seconds for the end of all processes that carry one of these tokens, then kill what is left."""
    deadline = time.monotonic() + patience
    while carrying(tokens) and time.monotonic() < deadline:
        time.sleep(0.1)
    deadline = time.monotonic() + AFTER_KILL
    while (left := carrying(tokens)) and time.monotonic() < deadline:
        for process in left:
            try:
                process.kill()
            except psutil.Error:
                pass
        time.sleep(0.05)


def carrying(tokens: Collection[str]) -> list[psutil.Process]:
    """Living processes, but for this one, whose environment holds one of the tokens."""
    found = []
    for process in psutil.process_iter() if tokens else ():
        try:
            if process.pid != os.getpid() and process.environ().get(TOKEN) in tokens and is_executing(process):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found
