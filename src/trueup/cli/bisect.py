"""`trueup bisect`: which layers, together and in which order, break a job."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from trueup.cli import exits
from trueup.cli.output import format_option, is_coloured, json_option, printed_on, save, width_of, write
from trueup.cli.parameters import links_option, output_file, seconds

if TYPE_CHECKING:
    from trueup.schema.bisection import Bisection


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
    help="End a run after S seconds.  [default: ten times the time with all layers off, and at least 30 s more, 120 s "
    "for a job that compiles]",
)
@click.option("--runs", type=click.IntRange(min=2), default=80, show_default=True, metavar="N", help="At most.")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Runs side by side.  [default: one, on Ray all]")
@click.option(
    "--executor",
    "kind",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="Where runs are made: here, or on the workers of a Ray cluster (pip install 'trueup[ray]').",
)
@click.option("--resources", default="", metavar="NAME=N,...", help="What each run is given, as in CPU=4,GPU=1.")
@click.option("--address", metavar="ADDRESS", help="Of the Ray cluster.  [default: RAY_ADDRESS, else a new one here]")
@click.option(
    "--inside", type=seconds, default="420", show_default=True, metavar="S", help="Seconds to look within the layers."
)
@click.option("--shallow", is_flag=True, help="Find the layers only: neither what within them, nor a reproduction.")
@click.option(
    "--repro",
    "repro_file",
    type=output_file,
    metavar="FILE.py",
    help="Where the reproduction goes.  [default: .trueup/bisect/<time>/repro.py]",
)
@click.option("--fresh", is_flag=True, help="Make all runs, also those that an earlier bisect of this job has made.")
@links_option()
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
    jobs: int | None,
    kind: Literal["local", "ray"],
    resources: str,
    address: str | None,
    inside: float,
    shallow: bool,
    repro_file: Path | None,
    fresh: bool,
    links: bool,
    quiet: bool,
    json_file: Path | None,
    shape: str,
) -> int:
    """Run COMMAND with other layers forced off each time, until the smallest set is left with which it fails as it did.

    \b
      trueup bisect -- torchrun --nproc-per-node 2 train.py
      trueup bisect --fails-when 'loss>0.01' -- python train.py

    The first run has all layers off: it must not fail in this way. What the job then shows as it is (an exception, a
    hang, a loss that is not finite, a finding, losses that the control does not have) is looked for in all runs; a run
    that ends otherwise tells nothing. Then their order is tried, what within them it is, and a script of its own is
    written that fails in the same way. Each run has a copy of the working folder, offline trackers and no input. What
    was run is remembered: a bisect that was stopped goes on where it was.

    \b
    Exit codes: 0 nothing fails, 1 a set was found or the search did not end, 2 wrong usage, 3 trueup itself failed,
    126 and 127 COMMAND cannot be started, 130 interrupted
    """
    if not command:
        raise click.UsageError("no command to bisect; for example: trueup bisect -- torchrun train.py")

    if repro_file is not None and repro_file.suffix != ".py":
        raise click.UsageError(f"--repro takes a file that ends in .py, got {str(repro_file)!r}")

    import msgspec

    from trueup.procedures.bisection.fails_when import FaultError, signature_from
    from trueup.procedures.bisection.reproducing import with_reproduction
    from trueup.procedures.bisection.walk import bisect as bisected
    from trueup.procedures.probes import Interrupted, Probes
    from trueup.reports.issue import with_issue
    from trueup.runs.executors import executor_for
    from trueup.runs.probe import ProbeError
    from trueup.runs.process import CommandError
    from trueup.runs.remembered import Remembered
    from trueup.schema.bisection import with_notes

    def say(text: str) -> None:
        if not quiet:
            click.echo(f"trueup: {text}", err=True)

    try:
        signature = signature_from(fault) if fault is not None else None
    except FaultError as error:
        raise click.UsageError(f"--fails-when: {error}") from error
    chosen = chosen_layers(layers)
    ignored = [each for each in (json_file, repro_file) if each is not None]
    try:
        executor = executor_for(kind, jobs, resources, address)
        with Probes(
            command,
            steps=steps,
            timeout=timeout,
            say=lambda text: None,
            links=links,
            kind="bisect",
            executor=executor,
        ) as probes:
            run = Remembered(
                probes.run_all, command, options={"steps": steps, "links": links}, ignored=ignored, fresh=fresh
            )
            found = bisected(
                run,
                fault=signature,
                layers=chosen,
                at_once=1 if signature is not None and signature.kind == "slow" else executor.at_once,
                limit=runs,
                timeout=timeout,
                inside=0 if shallow else inside,
                say=say,
            )
    except CommandError as error:
        click.echo(f"trueup: {error}", err=True)
        return error.code
    except ProbeError as error:
        raise click.UsageError(str(error)) from error
    except Interrupted:
        click.echo("trueup: interrupted; the same command goes on where it was", err=True)
        return exits.INTERRUPTED
    told = f"{run.remembered} of these runs were made by an earlier bisect; --fresh makes them again"
    known = [told] if run.remembered else []
    found = msgspec.structs.replace(found, command=command)
    found = with_notes(found, [*known, *executor.notes, *probes.limits])
    if found.verdict == "found" and not shallow:
        if json_file is not None:
            save(presentation(found, "json"), json_file)
        say("a script of its own that fails in the same way is looked for; Ctrl-C leaves it out")
        found = with_issue(with_reproduction(found, Path.cwd(), say))
    script = repro_file or probes.folder / "repro.py"
    if found.repro is not None:
        save(found.repro.script, script)
        save(found.repro.issue, script.with_suffix(".md"))
    write(printed_on(), presentation(found, shape, nearest(script)))
    if json_file is not None:
        save(presentation(found, "json"), json_file)
    if found.verdict == "interrupted":
        return exits.INTERRUPTED
    return 0 if found.verdict == "nothing fails" else exits.FINDINGS


def nearest(path: Path) -> str:
    """A path as a person would type it here."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def chosen_layers(text: str | None) -> tuple[str, ...]:
    """The layers of `--layers`, all that can be switched by default."""
    from trueup.procedures.bisection.layers import OFF

    if text is None:
        return tuple(OFF)
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in OFF:
            raise click.UsageError(f"--layers: {name!r} cannot be switched; choose from {', '.join(OFF)}")
    if not names:
        raise click.UsageError(f"--layers: none is named; choose from {', '.join(OFF)}")
    return tuple(each for each in OFF if each in names)


def presentation(found: Bisection, shape: str, repro: str | None = None) -> str:
    """The result in one of FORMATS."""
    from trueup.reports import bisection as report

    if shape == "text":
        stream = sys.stdout
        return report.as_text(found, width=width_of(stream), colour=is_coloured(stream), repro=repro)
    return {"json": report.as_json, "sarif": report.as_sarif, "html": report.as_html}[shape](found)
