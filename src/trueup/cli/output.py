"""Which presentation goes where."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from trueup.cli.parameters import output_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from trueup.schema.record import Record

FORMATS = ("text", "json", "sarif", "html")
PIPED_WIDTH = 100


def format_option() -> Callable[[Any], Any]:
    """`--format`, which every command has."""
    return click.option(
        "--format",
        "shape",
        type=click.Choice(FORMATS),
        default="text",
        show_default=True,
        help="What is printed.",
    )


def json_option() -> Callable[[Any], Any]:
    """`--json`, which every command has."""
    return click.option("--json", "json_file", type=output_file, metavar="FILE", help="Write the result here, too.")


def width_of(stream: TextIO) -> int:
    """Columns of the terminal behind `stream`, else COLUMNS, else a width that reads well in a log."""
    if not stream.isatty() and not os.environ.get("COLUMNS"):
        return PIPED_WIDTH
    return max(40, shutil.get_terminal_size((PIPED_WIDTH, 24)).columns)


def is_coloured(stream: TextIO) -> bool:
    """Colour on terminals only, and never with NO_COLOR (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def show(record: Record, shape: str, stream: TextIO, files: Mapping[str, str] | None = None) -> None:
    """Print `record` in one of FORMATS on `stream`."""
    if shape == "text":
        from trueup.reports import text

        write(stream, text.render(record, width=width_of(stream), colour=is_coloured(stream), files=files))
    else:
        write(stream, presentation(record, shape))


def presentation(record: Record, shape: str) -> str:
    """`record` as json, sarif or html."""
    from importlib import import_module

    render: Callable[[Record], str] = import_module(f"trueup.reports.{shape}").render
    return render(record)


def save(text: str, path: Path) -> None:
    """Write a presentation to a file, with the folders that lead to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def write(stream: TextIO, text: str) -> None:
    """Print also where the stream's encoding lacks a character (a C locale, an old console).

    A reader that has gone away (`trueup report … | head`) has read what it wanted: that is no failure.
    """
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(text.encode(encoding, "replace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # else the interpreter complains when it flushes


def standard(name: str) -> TextIO:
    """`stdout` or `stderr` as they are now."""
    return sys.stderr if name == "stderr" else sys.stdout


def printed_on() -> TextIO:
    """Standard output, for a command that has nothing to do but print."""
    if sys.stdout is None:
        raise click.UsageError("standard output is closed")
    return sys.stdout
