"""`trueup bisect`: which layers, together and in which order, break a job."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trueup.cli import exits
from trueup.cli.output import format_option, is_coloured, json_option, printed_on, save, width_of, write
from trueup.cli.parameters import seconds

if TYPE_CHECKING:
    from trueup.schema.bisection import Attempt, Bisection
    from trueup.schema.record import Record


@click.command(
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
    short_help="Find which layers, together and in which order, break a job.",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.option(
    "--fails-when",
    "fault",
    metavar="FAULT",
    help="What is looked for, if not what the job shows: error:TEXT, exit:CODE, hang, oom, nan, loss>DIFFERENCE, "
    "slower>TIMES, LAYER<SHARE, or the id of a rule.",
)
@click.option("--layers", metavar="LAYER,...", help="Switch these layers only.")
@click.option("--steps", type=click.IntRange(min=1), default=30, show_default=True, metavar="N", help="Of each run.")
@click.option(
    "--timeout",
    type=seconds,
    metavar="S",
    help="End a run after S seconds.  [default: ten times the time with all layers off, at least two minutes more]",
)
@click.option("--runs", type=click.IntRange(min=2), default=60, show_default=True, metavar="N", help="At most.")
@click.option("--shallow", is_flag=True, help="Do not look within the layers.")
@click.option(
    "--links",
    is_flag=True,
    help="Link large files and what lies outside of the working folder into the copies. A program other than Python "
    "can then change them.",
)
@click.option("--quiet", is_flag=True, help="Say nothing while the job is run.")
@json_option()
@format_option()
def bisect(
    command: tuple[str, ...],
    fault: str | None,
    layers: str | None,
    steps: int,
    timeout: float | None,
    runs: int,
    shallow: bool,
    links: bool,
    quiet: bool,
    json_file: Path | None,
    shape: str,
) -> int:
    """Run COMMAND with ever other layers forced off, until the smallest set is left with which it fails as it did.

    \b
      trueup bisect -- torchrun --nproc-per-node 2 train.py
      trueup bisect --fails-when 'loss>0.01' -- python train.py

    The first run has all layers off: it must not fail in this way. What the job then shows as it is (an exception, a
    hang, a loss that is not finite, a finding, losses that the control does not have) is looked for in all runs; a run
    that ends otherwise tells nothing. Each run has a copy of the working folder, offline trackers and no input.

    \b
    Exit codes: 0 nothing fails, 1 a set was found or the search did not end, 2 wrong usage, 3 trueup itself failed,
    126 and 127 COMMAND cannot be started, 130 interrupted
    """
    if not command:
        raise click.UsageError("no command to bisect; for example: trueup bisect -- torchrun train.py")

    from trueup.procedures.bisection.fails_when import FaultError, signature_from
    from trueup.procedures.bisection.walk import bisect as bisected
    from trueup.procedures.probes import Probes
    from trueup.runs.probe import ProbeError
    from trueup.runs.process import CommandError

    def say(text: str) -> None:
        if not quiet:
            click.echo(f"trueup: {text}", err=True)

    try:
        signature = signature_from(fault) if fault is not None else None
    except FaultError as error:
        raise click.UsageError(f"--fails-when: {error}") from error
    try:
        with Probes(command, steps=steps, timeout=timeout, say=lambda text: None, links=links, kind="bisect") as probes:

            def run(attempts: Sequence[Attempt], limit: float | None) -> list[Record]:
                return [probes.run(each.variant) for each in attempts]

            found = bisected(
                run,
                fault=signature,
                layers=chosen_layers(layers),
                limit=runs,
                timeout=timeout,
                deep=not shallow,
                say=say,
            )
    except CommandError as error:
        click.echo(f"trueup: {error}", err=True)
        return error.code
    except ProbeError as error:
        raise click.UsageError(str(error)) from error
    write(printed_on(), presentation(found, shape))
    if json_file is not None:
        save(presentation(found, "json"), json_file)
    if found.verdict == "interrupted":
        return exits.INTERRUPTED
    return 0 if found.verdict == "nothing fails" else exits.FINDINGS


def chosen_layers(text: str | None) -> tuple[str, ...]:
    """The layers of `--layers`, all that can be switched by default."""
    from trueup.procedures.bisection.layers import OFF

    if text is None:
        return tuple(OFF)
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in OFF:
            raise click.UsageError(f"--layers: {name!r} cannot be switched; choose from {', '.join(OFF)}")
    return tuple(each for each in OFF if each in names)


def presentation(found: Bisection, shape: str) -> str:
    """The result in one of FORMATS."""
    from trueup.reports import bisection as report

    if shape == "text":
        stream = sys.stdout
        return report.as_text(found, width=width_of(stream), colour=is_coloured(stream))
    return {"json": report.as_json, "sarif": report.as_sarif, "html": report.as_html}[shape](found)
