"""What options take: checked before the work starts, so that no job of hours ends in a path that cannot be written."""

from __future__ import annotations

import math
import os
import threading
from pathlib import Path

import click


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
