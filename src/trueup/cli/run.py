"""`trueup run`: run a command as it is, and show the stack that really ran."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trueup.cli import exits
from trueup.cli.output import format_option, json_option, presentation, save, show, standard
from trueup.cli.parameters import output_file, output_folder, probe_options, questions_of, seconds

if TYPE_CHECKING:
    from trueup.schema.record import Record
    from trueup.schema.variant import Variant

VARIANT = click.Path(path_type=Path, dir_okay=False)


@click.command(
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
    short_help="Run a command and see the stack that really ran.",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
@json_option()
@click.option("--report", "report_file", type=output_file, metavar="FILE.html", help="Write the HTML report here, too.")
@click.option(
    "--out",
    type=output_folder,
    metavar="DIR",
    help="Folder for the record, events, output and report.  [default: .trueup/runs/<time>]",
)
@click.option(
    "--steps", type=click.IntRange(min=1), metavar="N", help="End every rank cleanly after N optimizer steps."
)
@click.option(
    "--timeout",
    type=seconds,
    metavar="S",
    help="After S seconds record all stacks and end the job (exit 124).",
)
@click.option("--with", "variant_file", type=VARIANT, metavar="VARIANT.toml", help="Run this variant of the command.")
@click.option(
    "--set", "settings", multiple=True, metavar="LAYER=VALUE", help="Force a layer, as in compile=off; may be repeated."
)
@probe_options()
@click.option("--strict", is_flag=True, help="Exit 1 when the command succeeds but a warning or an error is found.")
@click.option("--quiet", is_flag=True, help="Print no text of trueup's own; files are written all the same.")
@format_option()
def run(
    command: tuple[str, ...],
    json_file: Path | None,
    report_file: Path | None,
    out: Path | None,
    steps: int | None,
    timeout: float | None,
    variant_file: Path | None,
    settings: tuple[str, ...],
    probes: tuple[str, ...],
    packed_by: tuple[tuple[str, int], ...],
    strict: bool,
    quiet: bool,
    shape: str,
) -> int:
    """Run COMMAND unchanged and report the training stack that really ran.

    \b
      trueup run -- torchrun --nproc-per-node 2 train.py
      trueup run --steps 20 --set compile=off -- accelerate launch train.py

    \b
    Layers that --set can force:
      compile=off|eager|aot_eager|aot_eager_decomp_partition|inductor
      checkpointing=off|reentrant|non_reentrant  sharding=off|replicate|grad_op
      attention=eager|math|sdpa|flash|mem_efficient|cudnn  precision=fp32|fp64  adapter=off
      data=only|without|length
    precision=fp32:NAME,NAME forces it in these modules alone; data=only:17 gives the job this batch again and again,
    data=without:17 leaves it out, data=length:128 cuts every batch to 128 tokens.

    Everything after `--` is the command's own. Its output, its signals and its exit code pass through. The text
    report goes to stderr; --format json, sarif or html goes to stdout when the command has ended, after its output.

    \b
    Exit codes: those of COMMAND, and
      1    --strict: COMMAND succeeded and a warning or an error was found
      2    wrong usage
      3    trueup itself failed (never in place of a failure of COMMAND)
      124  --timeout ended the job
    """
    if not command:
        raise click.UsageError("no command to run; for example: trueup run -- torchrun train.py")
    if report_file is not None and report_file.suffix not in (".html", ".htm"):
        raise click.UsageError(f"--report takes a file that ends in .html, got {str(report_file)!r}")
    variant = chosen_variant(variant_file, settings)
    questions = questions_of(probes, packed_by)

    from trueup.reports.live import LiveReport
    from trueup.runs.process import CommandError
    from trueup.runs.run import new_folder, run_command

    folder = out or new_folder()
    live = LiveReport(sys.stderr, terminal=sys.stderr is not None and sys.stderr.isatty())
    try:
        record = run_command(
            command,
            out=folder,
            variant=variant,
            steps=steps,
            timeout=timeout,
            on_update=None if quiet else live,
            questions=questions,
        )
    except CommandError as error:
        click.echo(f"trueup: {error}", err=True)
        return error.code
    code = exits.of_run(record, strict=strict)
    save_report(record, folder)
    try:
        if shape != "text":
            show(record, shape, standard("stdout"))
        elif not quiet:
            show(record, shape, standard("stderr"), written_in(folder))
        if report_file is not None:
            save(presentation(record, "html"), report_file)
        if json_file is not None:
            save(presentation(record, "json"), json_file)
    except Exception as error:
        from trueup.cli.app import own_failure

        failed = own_failure(error)
        return code or failed
    return code


def save_report(record: Record, folder: Path) -> None:
    """`report.html` beside the record. Nobody asked for it, so what hinders it is told and is no failure."""
    try:
        save(presentation(record, "html"), folder / "report.html")
    except Exception as error:
        click.echo(f"trueup: {folder / 'report.html'} is not written: {error}", err=True)


def written_in(folder: Path) -> dict[str, str]:
    """What a person may want to open in the folder of a run."""
    files = {"record": folder / "record.json", "report": folder / "report.html"}
    return {name: str(path) for name, path in files.items() if path.is_file()}


def chosen_variant(file: Path | None, settings: tuple[str, ...]) -> Variant:
    """The variant of `--with` changed by `--set`; a mistake in either is a usage error that names the choices."""
    from trueup.remedies.registry import RemedyError, checked
    from trueup.schema.variant import Variant, VariantError, variant_from_toml, with_settings

    try:
        variant = Variant() if file is None else variant_from_toml(file.read_text(encoding="utf-8"))
        checked(variant.remedies)
    except OSError as error:
        raise click.UsageError(f"cannot read the variant {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{file} is not a variant file: {error}") from error
    except (VariantError, RemedyError) as error:
        raise click.UsageError(f"{file}: {error}") from error
    try:
        return with_settings(variant, list(settings))
    except VariantError as error:
        raise click.UsageError(str(error)) from error
