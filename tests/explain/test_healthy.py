"""Nothing is found where nothing of a training stack failed: output of real programs, made anew."""

from __future__ import annotations

import io
from pathlib import Path

import healthy
import pytest

from trueup.logs import read
from trueup.rules.log_judgement import judge_log

pytest.importorskip("torch")


def test_healthy_and_unrelated_logs_give_no_finding(tmp_path: Path) -> None:
    logs, work = tmp_path / "logs", tmp_path / "work"
    logs.mkdir()
    work.mkdir()
    written = healthy.write_logs(logs, work)
    assert written >= 200
    found = {path.name: [f.rule for f in judge_log(read(path))] for path in sorted(logs.iterdir())}
    assert len(found) == written
    assert {name: rules for name, rules in found.items() if rules} == {}


def test_all_healthy_logs_in_one_give_no_finding(tmp_path: Path) -> None:
    lines = [f"[rank{rank}]: step {n} loss {1 / (n + 1):.3f}\n" for n in range(2000) for rank in range(2)]
    text = "".join(lines)
    assert judge_log(read(io.BytesIO(text.encode()))) == ()
