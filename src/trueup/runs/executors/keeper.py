"""The process that `keeping.Keeper` starts: one run, which ends when the pipe at standard input closes."""

from __future__ import annotations

import json
import os
import signal
import threading
import traceback
from collections.abc import Sequence
from typing import Any

import msgspec

from trueup.runs.executors.task import Task, perform
from trueup.runs.probe import ProbeError
from trueup.runs.process import CommandError
from trueup.runs.signals import Ending


def keep(fields: dict[str, Any]) -> None:
    """Make the run of a Task and tell its end as JSON on standard output, where nothing else may be written."""
    answer = os.dup(1)
    os.dup2(2, 1)
    told = _told(fields)
    with open(answer, "w", encoding="utf-8") as stream:
        try:
            json.dump(told, stream)
            stream.flush()
        except BrokenPipeError:  # nobody waits for it any more
            os._exit(1)


def _told(fields: dict[str, Any]) -> dict[str, Any]:
    limits: list[str] = []
    ending = Ending()
    try:
        with ending:
            threading.Thread(target=_watch, daemon=True).start()
            task = msgspec.convert(fields, Task)
            os.chdir(task.copied or task.source)
            record = perform(task, lambda notes: _keep(notes, limits))
    except KeyboardInterrupt:
        return {"interrupted": True}
    except CommandError as error:
        return {"error": ["command", str(error), error.code]}
    except ProbeError as error:
        return {"error": ["probe", str(error), 2]}
    except Exception:
        return {"error": ["defect", traceback.format_exc(), 3]}
    if ending.asked:
        return {"interrupted": True}
    return {"record": msgspec.to_builtins(record), "limits": limits}


def _keep(notes: Sequence[str], limits: list[str]) -> None:
    limits.extend(notes)


def _watch() -> None:
    """Ask ourselves to end, as anybody would, when whoever started us is gone."""
    try:
        while os.read(0, 1 << 12):
            pass
    except OSError:
        pass
    os.kill(os.getpid(), signal.SIGTERM)
