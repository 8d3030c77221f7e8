"""The examples of the guides are run, and print what the guides say that they print."""

import re
from pathlib import Path

from trueup_runs import PYTHON, SCRIPTS, plain_run

DOCS = Path(__file__).resolve().parents[2] / "docs"


def blocks(page, language):
    text = (DOCS / page).read_text(encoding="utf-8")
    return [body for name, body in re.findall(r"^```(\w*)\n(.*?)^```", text, re.M | re.S) if name == language]


def test_compose(tmp_path):
    (program,) = blocks("compose.md", "python")
    said = next(block for block in blocks("compose.md", "") if block.startswith("checkpointing:"))
    job = tmp_path / "train.py"
    job.write_text(program, encoding="utf-8")
    launch = (SCRIPTS / "torchrun", "--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0")
    done = plain_run(tmp_path, *launch, job, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert {line: done.stdout.count(line) for line in said.splitlines()} == dict.fromkeys(said.splitlines(), 2)


def test_observe(tmp_path):
    (program,) = blocks("observe.md", "python")
    job = tmp_path / "train.py"
    job.write_text(program, encoding="utf-8")
    done = plain_run(tmp_path, PYTHON, job, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "6 steps" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
