"""The folder of a run: what lies where, and what to do when it cannot be written."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from trueup import __version__
from trueup.runs.encoding import encodable
from trueup.runs.redaction import redacted, redacted_command
from trueup.schema.record import Record, RecordError, record_from_json, record_to_json
from trueup.schema.variant import Variant

FATAL = re.compile(r"^(?:\[?rank\d+\]?:\s*)?(?P<line>[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Timeout)\b.*)$")
"""A line in which Python tells an uncaught exception; torchrun puts the rank before it."""
OF_A_LAUNCHER = re.compile(r"(?:[\w.]*\.)?(?:ChildFailedError|CalledProcessError)\b(?P<says>:.*\S)?")
"""The exception of a launcher whose child failed: it follows from the failure and tells no cause."""
NOT_STARTED = re.compile(
    r"^(?:\[?rank\d+\]?:\s*)?(?:"
    r"\S*python[\w.]*(?:\.exe)?:\s+(?P<python>can't open file .*|can't find .*__main__.*|No module named .*)"
    r"|(?P<usage>[\w.-]+(?: [\w.-]+)?: error: .*)"  # argparse
    r"|(?P<shell>\S*sh: .*: (?:command )?not found)"
    r")$"
)
"""What is printed where a program could not begin: by the interpreter, argparse or a shell."""
TAIL = 1 << 16
TRIAL = 1 << 13
"""Bytes that a disk must still take to be said not to be full."""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """What is known when a run starts: `run.json`."""

    command: tuple[str, ...] = ()
    variant: Variant = Variant()
    started: str | None = None
    trueup_version: str = __version__


class RunFolder:
    """`run.json`, `events/`, `stdout.txt`, `stderr.txt`, `stacks/` and at the end `record.json`.

    Where the folder cannot be written, events go to a temporary folder, and nothing else is kept.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.problem: str | None = None
        """Why the folder cannot be used."""
        self._temporary: Path | None = None

    @property
    def events(self) -> Path:
        return (self._temporary or self.path) / "events"

    @property
    def captures(self) -> Path | None:
        """The folder for captured output and stacks; None when there is none."""
        return None if self.problem else self.path

    def create(self, start: Start) -> None:
        """Make the folder ready for a run that starts now."""
        try:
            self.events.mkdir(parents=True, exist_ok=True)
            self._forget_earlier_run()
            (self.path / "run.json").write_bytes(msgspec.json.encode(encodable(msgspec.to_builtins(start))))
        except OSError as error:
            self.problem = f"{self.path} cannot be written ({error.strerror}); no record is kept"
            self._temporary = _temporary_folder()

    def events_problem(self) -> str | None:
        """Why the processes of the run could not write their events at its end; None when they could."""
        trial = self.events / ".trial"
        try:
            trial.write_bytes(b"\0" * TRIAL)
        except OSError as error:
            return f"events could not be written at the end of the run ({error.strerror}): what came last is missing"
        finally:
            try:
                trial.unlink()
            except OSError:
                pass
        return None

    def write(self, record: Record) -> None:
        """Write `record.json`; raises OSError."""
        if self.problem is None:
            (self.path / "record.json").write_text(record_to_json(record), encoding="utf-8")

    def close(self) -> None:
        """Remove what was only temporary."""
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def start(self) -> Start:
        """What `run.json` says; nothing when there is none."""
        try:
            return msgspec.json.decode((self.path / "run.json").read_bytes(), type=Start)
        except (OSError, msgspec.DecodeError, msgspec.ValidationError):
            return Start()

    def record(self) -> Record | None:
        """The record of a finished run; None while it still runs, or when it never came to an end."""
        try:
            return record_from_json((self.path / "record.json").read_bytes())
        except (OSError, RecordError):
            return None

    @property
    def captured(self) -> tuple[Path, ...]:
        """Files of what the command printed, the one with its errors first."""
        files = (self.path / name for name in ("stderr.txt", "stdout.txt"))
        return tuple(file for file in files if file.is_file() and file.stat().st_size)

    def fatal_line(self) -> str | None:
        """What the captured output tells of the failure, in one line.

        The last line of an exception, but not a launcher's of its child; else the first one of a program that could not
        begin; else the launcher's where it says something.
        """
        exceptions, not_started = [], []
        for path in self.captured:
            try:
                with path.open("rb") as file:
                    file.seek(max(0, file.seek(0, 2) - TAIL))
                    text = file.read().decode(errors="replace")
            except OSError:
                continue
            lines = [line.strip() for line in text.splitlines()]
            found = [match["line"] for line in lines if (match := FATAL.match(line))]
            own = [line for line in found if not OF_A_LAUNCHER.match(line)]
            if own:
                return own[-1][:500]
            exceptions += found
            not_started += [match[match.lastgroup or 0] for line in lines if (match := NOT_STARTED.match(line))]
        told = [line for line in exceptions if (match := OF_A_LAUNCHER.match(line)) and match["says"]]
        return next((line[:500] for line in [*not_started, *reversed(told)]), None)

    def _forget_earlier_run(self) -> None:
        """Remove the events of a run that has ended here before; other hosts that start just now keep theirs."""
        record = self.path / "record.json"
        if not record.exists():
            return
        ended = record.stat().st_mtime
        for pattern in ("events-*.jsonl", "stacks-*.txt"):
            for file in self.events.glob(pattern):
                if file.stat().st_mtime <= ended:
                    file.unlink()
        record.unlink()


def start_of(command: Sequence[str], variant: Variant, started: str) -> Start:
    """What is written at the start of a run, without secrets."""
    values: Any = redacted(msgspec.to_builtins(variant))
    return Start(command=redacted_command(command), variant=msgspec.convert(values, Variant), started=started)


def _temporary_folder() -> Path | None:
    try:
        return Path(tempfile.mkdtemp(prefix="trueup-events-"))
    except OSError:
        return None
