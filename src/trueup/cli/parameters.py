"""What options take: checked before the work starts, so that no job of hours ends in a path that cannot be written."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from trueup.schema.questions import QUESTIONS


def probe_options() -> Callable[[Any], Any]:
    """`--probe` and what goes with it."""
    told = "; ".join(f"{name}: {question}" for name, question in QUESTIONS.items())
    asked = click.option(
        "--probe",
        "probes",
        multiple=True,
        type=click.Choice(tuple(QUESTIONS)),
        help=f"Let the job's own model answer a question, by extra forward passes that leave no trace. {told}",
    )
    parted = click.option(
        "--packed-by",
        multiple=True,
        type=part,
        metavar="eos=ID|bos=ID",
        help="With --probe packing: documents end, or begin, with this token id. Without it, position ids, boundaries "
        "and masks that the model is given tell them apart.",
    )
    return lambda command: asked(parted(command))


def links_option() -> Callable[[Any], Any]:
    """`--links`, of the commands that run a job in copies of its folder."""
    told = (
        "Link large files and what lies outside of the working folder into the copies. A program other than Python can "
        "then change them."
    )
    return click.option("--links", is_flag=True, help=told)


def part(value: str) -> tuple[str, int]:
    """A token that parts documents: `eos=2`."""
    name, _, number = value.partition("=")
    if name not in ("eos", "bos") or not number.isdecimal():
        raise click.BadParameter(f"{value} is neither eos=ID nor bos=ID, with the number of a token for ID")
    return name, int(number)


def questions_of(probes: Sequence[str], packed_by: Sequence[tuple[str, int]]) -> dict[str, dict[str, int]]:
    """What `runs` takes, from the two options of `probe_options`."""
    if packed_by and "packing" not in probes:
        raise click.UsageError("--packed-by goes with --probe packing")
    return {name: dict(packed_by) if name == "packing" else {} for name in probes}


def output_file(value: str) -> Path:
    """A file to write, with the folders that lead to it."""
    path = Path(value)
    if problem := "it is a folder" if path.is_dir() else hindrance(path):
        raise click.BadParameter(f"cannot write {value}: {problem}")
    return path


def output_folder(value: str) -> Path:
    """A folder to write into, made when it is missing."""
    path = Path(value)
    if problem := hindrance(path / "record.json"):
        raise click.BadParameter(f"cannot write into {value}: {problem}")
    return path


def copies_folder(value: str) -> Path:
    """A folder for copies of the files of the working folder, which it is not."""
    path = output_folder(value)
    if Path.cwd().is_relative_to(path.absolute().resolve()):
        raise click.BadParameter(f"{value} holds the files themselves; choose another folder for their copies")
    return path


def seconds(value: str) -> float:
    """A time to wait: more than none, and an end."""
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 < number <= threading.TIMEOUT_MAX:
        raise click.BadParameter(f"{value} is no number of seconds above 0")
    return number


def hindrance(path: Path) -> str | None:
    """Why no file can be written at `path`, None when nothing is known against it. Nothing is made to find out."""
    try:
        path.stat()
    except FileNotFoundError:
        nearest = next(folder for folder in path.absolute().parents if folder.exists())
        return None if os.access(nearest, os.W_OK | os.X_OK) else f"{nearest} may not be written to"
    except OSError as error:
        return error.strerror
    return None if os.access(path, os.W_OK) else "it may not be written to"
