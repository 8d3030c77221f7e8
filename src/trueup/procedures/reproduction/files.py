"""The files of a job that a reproduction may be cut out of."""

from __future__ import annotations

from pathlib import Path

from trueup.edits import command
from trueup.edits.job import Job
from trueup.procedures.reproduction.candidate import Sources
from trueup.schema.record import Record

SETTINGS = (".yaml", ".yml", ".json", ".toml")
"""Endings of files that a command names and a program reads its settings from."""


def sources_of(record: Record, folder: Path) -> Sources:
    """The script that the job started in `folder`, the job's own files that it imports, and its settings."""
    job = Job(folder, record)
    files = {source.path: source.text for source in job.sources()}
    named = command.files(job.command, folder, *SETTINGS)
    files |= {path: text for path in named if (text := job.text(path)) is not None}
    return Sources(command=job.command, script=command.script(job.command, folder), files=files)
