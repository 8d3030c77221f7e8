"""Runs `trueup run` itself, as a user does, and reads the record that it leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trueup.schema.record import Record, record_from_json

PYTHON = sys.executable
SCRIPTS = Path(sys.executable).parent
"""Where torchrun and accelerate lie."""
FROM_OUTSIDE = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "PYTHONPATH")


@dataclass(frozen=True)
class Run:
    """What a run printed, how it ended, and its record."""

    code: int
    stdout: str
    stderr: str
    folder: Path
    record: Record

    @property
    def notes(self) -> str:
        return "\n".join(note.what for note in self.record.notes)


def trueup_run(
    folder: Path, *command: str | Path, options: Sequence[str] = (), timeout: float = 200, **variables: str
) -> Run:
    """Run a command in `folder` under observation. `torchrun` and `accelerate` are those of this environment."""
    out = folder / "run"
    words = [PYTHON, "-m", "trueup", "run", "--quiet", "--out", str(out), *options, "--", *map(str, command)]
    done = _done(folder, words, timeout, variables)
    record = record_from_json((out / "record.json").read_bytes())
    return Run(done.returncode, done.stdout, done.stderr, out, record)


def plain_run(
    folder: Path, *command: str | Path, timeout: float = 200, **variables: str
) -> subprocess.CompletedProcess[str]:
    """The same command without trueup."""
    return _done(folder, list(map(str, command)), timeout, variables)


def _done(
    folder: Path, words: list[str], timeout: float, variables: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in FROM_OUTSIDE}
    environment |= {
        "PATH": f"{SCRIPTS}{os.pathsep}{environment.get('PATH', os.defpath)}",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        words,
        cwd=folder,
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
