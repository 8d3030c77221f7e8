"""Options of `trueup fix` that touch files and the environment."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from trueup.cli import main


@pytest.mark.parametrize("folder", [".", "..", "/"])
def test_copies_never_take_the_place_of_the_files(folder: str, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["fix", "--edits", folder, "--", sys.executable, "train.py"]) == 2
    assert "choose another folder" in capsys.readouterr().err


def test_a_job_without_findings_has_no_copies_and_installs_nothing(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('trained')\n")
    assert main(["fix", "--yes", "--edits", "copies", "--", sys.executable, "train.py"]) == 0
    told = capsys.readouterr()
    assert "nothing to fix" in told.out
    assert "installing" not in told.err
    assert not (tmp_path / "copies").exists()
    assert (tmp_path / "train.py").read_text() == "print('trained')\n"


def test_a_job_that_is_not_observed_is_not_called_well(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["fix", "--quiet", "--", sys.executable, "-S", "-c", "pass"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "trueup fix: nothing observed" in told
    assert "Python was started with -S" in told
