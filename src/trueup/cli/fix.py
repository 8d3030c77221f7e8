"""`trueup fix`: repair a job by remedies that prove themselves, without touching its files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trueup.cli import exits
from trueup.cli.output import format_option, is_coloured, json_option, printed_on, save, width_of, write
from trueup.cli.parameters import copies_folder, links_option, output_file, probe_options, questions_of, seconds

if TYPE_CHECKING:
    from trueup.procedures.selection import Goal
    from trueup.schema.fixing import Fixing

WRITTEN = "# written by trueup fix"
"""First line of a variant file that may be written again."""


@click.command(
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
    short_help="Repair a job without touching its files, and prove it.",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
@json_option()
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    metavar="N",
    help="Optimizer steps of each run.",
)
@click.option("--timeout", type=seconds, metavar="S", help="End a run after S seconds.")
@click.option(
    "--goal",
    type=click.Choice(["correct", "speed", "memory"]),
    default="correct",
    show_default=True,
    help="correct: what was asked for runs, whatever it costs. speed, memory: leave out a remedy that costs it.",
)
@click.option(
    "--pairs",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    metavar="N",
    help="Pairs of runs, as it was and repaired, that the speed is measured on.",
)
@click.option(
    "--variant",
    "variant_file",
    type=output_file,
    default=Path("trueup.toml"),
    show_default=True,
    metavar="FILE.toml",
    help="Where the proved remedies go.",
)
@click.option(
    "--edits",
    "edited",
    type=copies_folder,
    metavar="DIR",
    help="Write copies of your files with the permanent changes into DIR. Your files stay as they are.",
)
@click.option(
    "--yes",
    is_flag=True,
    help="First run the pip commands by which findings are cured that nothing else cures.",
)
@links_option()
@probe_options()
@click.option("--quiet", is_flag=True, help="Say nothing while the job is run.")
@format_option()
def fix(
    command: tuple[str, ...],
    json_file: Path | None,
    steps: int,
    timeout: float | None,
    goal: Goal,
    pairs: int,
    variant_file: Path,
    edited: Path | None,
    yes: bool,
    links: bool,
    probes: tuple[str, ...],
    packed_by: tuple[tuple[str, int], ...],
    quiet: bool,
    shape: str,
) -> int:
    """Run COMMAND as it is, apply remedies for what is found, run it again, and keep what proves itself.

    \b
      trueup fix -- torchrun --nproc-per-node 2 train.py
      trueup run --with trueup.toml -- torchrun --nproc-per-node 2 train.py

    A remedy is kept when its finding is gone, nothing else went wrong, and losses and gradient norms are those of the
    job as it was (or the fault had made them wrong, which is said). Each run has a copy of the working folder, offline
    trackers and no input; the permanent change is printed, as a diff where it can be written. Nothing is installed
    without --yes.

    \b
    Exit codes: 0 nothing is left to do, 1 findings stand, 2 wrong usage, 3 trueup itself failed,
    126 and 127 COMMAND cannot be started, 130 interrupted
    """
    if not command:
        raise click.UsageError("no command to repair; for example: trueup fix -- torchrun train.py")

    if variant_file.exists() and not variant_file.read_text(errors="replace").startswith(WRITTEN):
        raise click.UsageError(f"{variant_file} is there and not of `trueup fix`; choose another file with --variant")

    from trueup.edits.recipe import with_edits
    from trueup.procedures.fix import fix as fixed
    from trueup.procedures.installing import installed_first
    from trueup.procedures.probes import Interrupted, Probes
    from trueup.runs.installing import InstallError, pip_install
    from trueup.runs.probe import ProbeError
    from trueup.runs.process import CommandError

    def say(text: str) -> None:
        if not quiet:
            click.echo(f"trueup: {text}", err=True)

    questions = questions_of(probes, packed_by)
    try:
        with Probes(command, steps=steps, timeout=timeout, say=say, links=links, questions=questions) as runs:
            run, installed = installed_first(runs.run, pip_install, say) if yes else (runs.run, ())
            fixing = fixed(run, limits=runs.limits, goal=goal, pairs=pairs)
    except CommandError as error:
        click.echo(f"trueup: {error}", err=True)
        return error.code
    except ProbeError as error:
        raise click.UsageError(str(error)) from error
    except InstallError as error:
        click.echo(f"trueup: {error}", err=True)
        return exits.FINDINGS
    except Interrupted:
        click.echo("trueup: interrupted; nothing is kept", err=True)
        return exits.INTERRUPTED
    fixing = with_edits(fixing, Path.cwd(), installed)
    if edited is not None:
        from trueup.edits.applying import write_copies

        files, left = write_copies(fixing.recipe, Path.cwd(), edited)
        for text in (*(f"written: {file}" for file in files), *left):
            say(text)
    write(printed_on(), presentation(fixing, shape, variant_file))
    if json_file is not None:
        save(presentation(fixing, "json", variant_file), json_file)
    if fixing.variant is not None:
        from trueup.schema.variant import variant_to_toml

        save(f"{WRITTEN}\n{variant_to_toml(fixing.variant)}", variant_file)
    last = fixing.after or fixing.before
    well = not last.exit.code and not any(finding.severity != "note" for finding in last.findings)
    return 0 if well else exits.FINDINGS


def presentation(fixing: Fixing, shape: str, variant_file: Path) -> str:
    """The result in one of FORMATS."""
    from trueup.reports import fixing as report

    if shape == "text":
        stream = sys.stdout
        return report.as_text(fixing, width=width_of(stream), colour=is_coloured(stream), variant=str(variant_file))
    return {"json": report.as_json, "sarif": report.as_sarif, "html": report.as_html}[shape](fixing)
