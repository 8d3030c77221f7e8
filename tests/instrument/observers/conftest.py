"""Runs the jobs beside this file as a user would, observed, and reads the events that they left."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from observed_jobs import JOBS, Observed

import trueup

BOOTSTRAP = Path(trueup.__file__).parent / "instrument" / "bootstrap"
INHERITED = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "TRUEUP_EVENTS", "TRUEUP_RANK_PROCESS")


@pytest.fixture(scope="session")
def run_job(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Observed]:
    """Runs a command in an empty folder with observation on, or off with `observed=False`."""

    def run(*command: str, observed: bool = True, **variables: str) -> Observed:
        folder = tmp_path_factory.mktemp("job")
        events = folder / "events"
        environment = {name: value for name, value in os.environ.items() if name not in INHERITED}
        environment.update(HF_HUB_OFFLINE="1", **variables)
        if observed:
            environment.update(PYTHONPATH=str(BOOTSTRAP), TRUEUP_EVENTS=str(events), TRUEUP_DEBUG="1")
        done = subprocess.run(
            [word if word not in os.listdir(JOBS) else str(JOBS / word) for word in command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        files = sorted(events.glob("*.jsonl")) if observed else []
        return Observed(done.stdout, tuple(_read(file) for file in files))

    return run


def _read(file: Path) -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(line) for line in file.read_text().splitlines())
