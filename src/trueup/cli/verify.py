"""`trueup verify`: whether a job computes what a control of it computes, and how fast."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trueup.cli import exits
from trueup.cli.output import format_option, is_coloured, json_option, printed_on, save, width_of, write
from trueup.cli.parameters import links_option, seconds
from trueup.cli.run import VARIANT, chosen_variant

if TYPE_CHECKING:
    from trueup.schema.variant import Variant
    from trueup.schema.verification import Verification


@click.command(
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
    short_help="Prove that a job computes what a plain control computes, and how fast.",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.option("--with", "variant_file", type=VARIANT, metavar="VARIANT.toml", help="The candidate is this variant.")
@click.option(
    "--set", "settings", multiple=True, metavar="LAYER=VALUE", help="Force a layer of the candidate; may be repeated."
)
@click.option("--against", type=VARIANT, metavar="VARIANT.toml", help="The control is this variant.")
@click.option(
    "--reference",
    type=click.Choice(["fp32", "fp64"]),
    help="The control is the job in float32 or float64, its optional layers off.",
)
@click.option(
    "--pairs",
    type=click.IntRange(min=2),
    default=2,
    show_default=True,
    metavar="N",
    help="Runs of each; two of the control show its noise.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    metavar="N",
    help="Optimizer steps of each run.",
)
@click.option("--timeout", type=seconds, metavar="S", help="End a run after S seconds.")
@links_option()
@click.option("--quiet", is_flag=True, help="Say nothing while the job is run.")
@json_option()
@format_option()
def verify(
    command: tuple[str, ...],
    variant_file: Path | None,
    settings: tuple[str, ...],
    against: Path | None,
    reference: str | None,
    pairs: int,
    steps: int,
    timeout: float | None,
    links: bool,
    quiet: bool,
    json_file: Path | None,
    shape: str,
) -> int:
    """Run COMMAND as a control and as a candidate, in interleaved pairs, and compare them step by step.

    \b
      trueup verify -- torchrun --nproc-per-node 2 train.py
      trueup verify --with trueup.toml -- torchrun --nproc-per-node 2 train.py
      trueup verify --reference fp32 -- python train.py

    The candidate is the job as it is, or as --with and --set change it. The control has the optional layers off
    (compile=off attention=math checkpointing=off), unless --against or --reference names another. Losses, gradient
    norms and the drift of parameters may differ by rounding, and by the noise between runs of the control.

    \b
    Exit codes: 0 verified, or within the job's own noise, 1 different, failed or not compared, 2 wrong usage,
    3 trueup itself failed, 126 and 127 COMMAND cannot be started, 130 interrupted
    """
    if not command:
        raise click.UsageError("no command to verify; for example: trueup verify -- torchrun train.py")
    if against is not None and reference is not None:
        raise click.UsageError("--against and --reference both name the control; leave one out")

    from trueup.procedures.probes import Interrupted, Probes
    from trueup.procedures.verify import verify as verified
    from trueup.runs.probe import ProbeError
    from trueup.runs.process import CommandError

    candidate = chosen_variant(variant_file, settings)
    control = chosen_control(against, reference)
    say = (lambda text: None) if quiet else (lambda text: click.echo(f"trueup: {text}", err=True))
    try:
        with Probes(command, steps=steps, timeout=timeout, say=say, links=links, kind="verify") as probes:
            verification = verified(probes.run, control, candidate, pairs, probes.limits)
    except CommandError as error:
        click.echo(f"trueup: {error}", err=True)
        return error.code
    except ProbeError as error:
        raise click.UsageError(str(error)) from error
    except Interrupted:
        click.echo("trueup: interrupted; nothing is compared", err=True)
        return exits.INTERRUPTED
    page = probes.folder / "report.html"
    save(presentation(verification, "html"), page)
    options = shlex.join(
        [*(["--with", str(variant_file)] if variant_file else []), *(w for s in settings for w in ("--set", s))]
    )
    write(printed_on(), presentation(verification, shape, options, page))
    if json_file is not None:
        save(presentation(verification, "json"), json_file)

    from trueup.schema.verification import PASSED

    return 0 if verification.verdict in PASSED else exits.FINDINGS


def chosen_control(against: Path | None, reference: str | None) -> Variant:
    """The variant of `--against`, else the job with its optional layers off, in float32 where that is asked for."""
    from trueup.procedures.verify import LAYERS_OFF, in_precision

    if against is not None:
        return chosen_variant(against, ())
    return in_precision(LAYERS_OFF, reference) if reference else LAYERS_OFF


def presentation(verification: Verification, shape: str, options: str = "", page: Path | None = None) -> str:
    """The result in one of FORMATS."""
    from trueup.reports import verification as report

    if shape == "text":
        stream = sys.stdout
        return report.as_text(
            verification,
            width=width_of(stream),
            colour=is_coloured(stream),
            options=options,
            report=None if page is None else shortest(page),
        )
    return {"json": report.as_json, "sarif": report.as_sarif, "html": report.as_html}[shape](verification)


def shortest(path: Path) -> str:
    """The path from the working folder."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
