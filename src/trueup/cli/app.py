"""The group of all commands, and what happens to errors that reach the top."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from trueup import __version__
from trueup.cli.attention import attention
from trueup.cli.bisect import bisect
from trueup.cli.doctor import doctor
from trueup.cli.exits import INTERRUPTED, OWN_FAILURE, USAGE
from trueup.cli.explain import explain
from trueup.cli.fix import fix
from trueup.cli.report import report
from trueup.cli.rules import rules
from trueup.cli.run import run
from trueup.cli.verify import verify

DEBUG = "TRUEUP_DEBUG"
"""Set to anything, it shows the traceback of a failure of trueup itself."""


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}, subcommand_metavar="COMMAND ..."
)
@click.version_option(__version__, prog_name="trueup", message="%(prog)s %(version)s")
def app() -> None:
    """See the PyTorch training stack that really ran, why it is not what was asked for, and what to do.

    Put `trueup run --` in front of the launch command you already have:

    \b
      trueup run -- torchrun --nproc-per-node 2 train.py
    """


for command in (run, fix, verify, bisect, doctor, report, explain, attention, rules):
    app.add_command(command)


def execute(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; every way out is an exit code and at most a few lines on stderr."""
    try:
        outcome = app.main(
            args=None if arguments is None else list(arguments), prog_name="trueup", standalone_mode=False
        )
        return outcome if isinstance(outcome, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return USAGE
    except click.UsageError as error:
        return _usage(error)
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except Exception as error:
        if os.environ.get(DEBUG):
            raise
        return own_failure(error)


def _usage(error: click.UsageError) -> int:
    context = error.ctx
    name = context.command_path if context else "trueup"
    message = error.format_message().rstrip(".")
    message = message[:1].lower() + message[1:]
    if isinstance(error, click.NoSuchOption) and context is not None and context.command.name == "run":
        message += "; an option of your own command goes behind `--`: trueup run -- COMMAND..."
    click.echo(f"{name}: {message}", err=True)
    click.echo(f"{name}: type `{name} --help` for what it takes", err=True)
    return USAGE


def own_failure(error: BaseException) -> int:
    """Say that trueup, not the user's command, failed, and where."""
    if isinstance(error, FileNotFoundError) and not _has_working_folder():
        click.echo("trueup: the working folder is not there any more; change into one that is", err=True)
        return OWN_FAILURE
    if isinstance(error, OSError) and error.filename is not None:
        click.echo(f"trueup: cannot use {error.filename}: {error.strerror}", err=True)
        return OWN_FAILURE
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else ""
    click.echo(f"trueup: failed by its own fault: {type(error).__name__}: {error}{place}", err=True)
    click.echo(f"trueup: set {DEBUG}=1 to see the traceback", err=True)
    return OWN_FAILURE


def _has_working_folder() -> bool:
    try:
        return bool(os.getcwd())
    except FileNotFoundError:
        return False
