"""`trueup report`: the report of a run, also while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trueup.cli import exits
from trueup.cli.output import format_option, json_option, presentation, printed_on, save, show

if TYPE_CHECKING:
    from trueup.schema.record import Record


@click.command(short_help="Print the report of a run, also while it runs.")
@click.argument("run", type=click.Path(path_type=Path), required=False)
@click.option("--strict", is_flag=True, help="Exit 1 when the run failed, or a warning or an error stands.")
@json_option()
@format_option()
def report(run: Path | None, strict: bool, json_file: Path | None, shape: str) -> int:
    """Print the report of RUN: the folder of a run, finished or not, or its record.json.

    Without RUN it is the newest run below .trueup/runs; stderr says which. While the job runs, the report is made from
    the events written so far.

    \b
    Exit codes: 0, and
      1  --strict: the run failed, or a warning or an error stands
      2  wrong usage
      3  trueup itself failed
    """
    if run is None:
        run = newest_run()
        click.echo(f"trueup: the newest run, {run}", err=True)
    record = load(run)
    show(record, shape, printed_on())
    if json_file is not None:
        save(presentation(record, "json"), json_file)
    if strict and exits.failed(record):
        how = "ran into its timeout" if record.exit.reason == "timeout" else f"exited with {record.exit.code}"
        click.echo(f"trueup: --strict: the command of this run {how}", err=True)
    return exits.of_report(record, strict=strict)


def newest_run() -> Path:
    """The folder below .trueup/runs of the run that was started last."""
    from trueup.runs.run import TRUEUP

    started = {file.parent: file.stat().st_mtime_ns for file in (TRUEUP / "runs").glob("*/run.json")}
    if not started:
        raise click.UsageError("no run below .trueup/runs; give the folder of a run or a record.json")
    return max(started, key=lambda folder: (started[folder], folder.name))


def load(run: Path) -> Record:
    """The record in a file, or of a run by its folder: what the events tell so far where the job still runs."""
    from trueup.schema.record import RecordError, record_from_json

    if any(run.glob("events/events-*.jsonl")):
        from trueup.runs.run import record_from_folder

        return record_from_folder(run)
    stored = run / "record.json" if run.is_dir() else run
    if stored.is_file():
        try:
            return record_from_json(stored.read_bytes())
        except (RecordError, OSError) as error:
            raise click.UsageError(f"cannot read {stored}: {error}") from error
    if run.is_dir():
        raise click.UsageError(f"{run} holds neither record.json nor events of a run; runs stand under .trueup/runs")
    raise click.UsageError(f"no run at {run}; give the folder of a run (under .trueup/runs) or a record.json")
