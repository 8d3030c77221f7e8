"""The files of a job that a reproduction may be cut out of."""

from __future__ import annotations

import re
from pathlib import Path

from trueup.edits import command
from trueup.edits.job import Job
from trueup.procedures.reproduction.candidate import Sources
from trueup.schema.record import Record

SETTINGS = (".yaml", ".yml", ".json", ".toml")
"""Endings of files that a command or a program names and reads settings from."""
_NAMED = re.compile(r"[\"']([\w./-]+\.(?:yaml|yml|json|toml))[\"']")


def sources_of(record: Record, folder: Path) -> Sources:
    """The script that the job started in `folder`, the job's own files that it imports, and its settings."""
    job = Job(folder, record)
    files = {source.path: source.text for source in job.sources()}
    named = [
        *command.files(job.command, folder, *SETTINGS),
        *(path for text in files.values() for path in _NAMED.findall(text)),
    ]
    files |= {path: text for path in named if path not in files and (text := job.text(path)) is not None}
    return Sources(command=job.command, script=command.script(job.command, folder), files=files)
