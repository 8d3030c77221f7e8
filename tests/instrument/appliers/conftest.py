"""Runs the jobs beside this file as a user would, with layers forced."""

from __future__ import annotations

import json
import sys

import pytest
from switched_jobs import JOBS, TORCHRUN, Switch, Switched

from trueup.runs.run import run_command
from trueup.schema.variant import Variant, checked


@pytest.fixture(scope="session")
def switch(tmp_path_factory: pytest.TempPathFactory) -> Switch:
    """`switch(job, compile="off", ...)` runs a job with these layers forced, with `ranks=` under torchrun."""

    def run(job: str, *arguments: str, ranks: int | None = None, **layers: str) -> Switched:
        out = tmp_path_factory.mktemp("run")
        command = [sys.executable] if ranks is None else [str(TORCHRUN), f"--nproc-per-node={ranks}"]
        record = run_command(
            [*command, str(JOBS / job), *arguments],
            out=out,
            variant=checked(Variant(layers=layers, environment={"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"})),
            timeout=240,
            pass_output=False,
            judge=lambda record: (),
        )
        assert record.exit.code == 0, (out / "stderr.txt").read_text()[-4000:]
        last = (out / "stdout.txt").read_text().strip().splitlines()[-1]
        events = [
            json.loads(line)
            for file in sorted((out / "events").glob("*.jsonl"))
            for line in file.read_text().splitlines()
        ]
        return Switched(record, json.loads(last), tuple(events))

    return run
