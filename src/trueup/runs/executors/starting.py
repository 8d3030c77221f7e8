"""What a keeper is started with, and what it tells at its end, as values of ours."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from typing import Any

import msgspec

import trueup
from trueup.runs.encoding import encodable
from trueup.runs.executors.executor import ExecutorError
from trueup.runs.executors.task import Task
from trueup.runs.probe import ProbeError
from trueup.runs.process import CommandError
from trueup.schema.record import Record


def fields_of(task: Task) -> dict[str, Any]:
    """The task as JSON has it."""
    fields: dict[str, Any] = msgspec.to_builtins(task)
    return fields


def new_token() -> str:
    return secrets.token_hex(8)


def package_root() -> Path:
    """The folder that holds the package `trueup`."""
    return Path(trueup.__file__).resolve().parent.parent


def entries() -> list[str]:
    """Where this interpreter finds modules, without the working folder, whose modules are the job's."""
    here = os.getcwd()
    return [str(package_root()), *(entry for entry in sys.path if entry and os.path.abspath(entry) != here)]


def record_of(told: dict[str, Any]) -> tuple[Record, tuple[str, ...]]:
    """The record, and what could not be copied. Raises what the run raised."""
    if told.get("interrupted"):
        raise KeyboardInterrupt
    if "error" in told:
        kind, message, code = told["error"]
        if kind == "command":
            raise CommandError(message, code)
        if kind == "probe":
            raise ProbeError(message)
        if kind == "missing":
            raise ExecutorError(
                f"trueup cannot be used there: {message}; install what it needs on each machine: pip install trueup"
            )
        raise RuntimeError(f"a run failed for a reason of ours:\n{encodable(message)}")
    return msgspec.convert(told["record"], Record), tuple(told["limits"])
