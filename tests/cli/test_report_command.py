"""`trueup report`: a stored record in every presentation, and the record so far of a run that has no record yet."""

import json
import os
import subprocess
import sys

import msgspec
import pytest

from trueup.cli import main
from trueup.schema.finding import Finding
from trueup.schema.record import Exit, Rank, Record, record_from_json, record_to_json

RECORD = Record(
    command=("torchrun", "train.py"),
    exit=Exit(code=0),
    ranks=(Rank(rank=0, trained=True, steps=4, exit=Exit(code=0)),),
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "record.json").write_text(record_to_json(RECORD))
    return tmp_path


@pytest.mark.parametrize("name", ["", "record.json"])
def test_folder_and_file_are_the_same(folder, capsys, name):
    assert main(["report", str(folder / name)]) == 0
    output = capsys.readouterr()
    assert output.out.startswith("trueup: no findings\n")
    assert "0: finished, 4 steps" in output.out
    assert output.err == ""


def test_json_is_the_record(folder, capsys):
    assert main(["report", str(folder), "--format", "json"]) == 0
    assert record_from_json(capsys.readouterr().out) == RECORD


@pytest.mark.parametrize(("shape", "start"), [("sarif", "{"), ("html", "<!doctype html>")])
def test_other_presentations(folder, capsys, shape, start):
    assert main(["report", str(folder), "--format", shape]) == 0
    assert capsys.readouterr().out.lstrip().startswith(start)


def test_json_beside_it(folder, capsys):
    assert main(["report", str(folder), "--json", str(folder / "new" / "copy.json")]) == 0
    assert record_from_json((folder / "new" / "copy.json").read_text()) == RECORD
    assert "no findings" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "{", '{"ranks": 3}'])
def test_a_file_that_is_no_record_is_a_usage_error(folder, capsys, text):
    (folder / "record.json").write_text(text)
    assert main(["report", str(folder)]) == 2
    assert "not a trueup record" in capsys.readouterr().err


def test_a_folder_without_a_run_is_a_usage_error(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 2
    assert "neither record.json nor events" in capsys.readouterr().err


def test_without_a_run_it_is_the_one_that_started_last(tmp_path, monkeypatch, capsys):
    """The names sort the other way, and the older run was written to last: the start counts."""
    monkeypatch.chdir(tmp_path)
    for name, started, steps in (("2026-01-01-000000-10", 2000, 7), ("2026-01-01-000000-9", 1000, 3)):
        run = tmp_path / ".trueup" / "runs" / name
        run.mkdir(parents=True)
        (run / "run.json").write_text("{}")
        os.utime(run / "run.json", (started, started))
        (run / "record.json").write_text(record_to_json(Record(ranks=(Rank(rank=0, trained=True, steps=steps),))))
    assert main(["report"]) == 0
    output = capsys.readouterr()
    assert "7 steps" in output.out
    assert output.err == "trueup: the newest run, .trueup/runs/2026-01-01-000000-10\n"


def test_without_a_run_where_there_is_none(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["report"]) == 2
    assert "no run below .trueup/runs" in capsys.readouterr().err


@pytest.mark.parametrize(("options", "code"), [([], 0), (["--strict"], 1)])
def test_strict_fails_on_a_warning(tmp_path, capsys, options, code):
    warning = Finding(
        rule="compile/x", layers=("compile",), severity="warning", confidence="likely", message="m", cause="c"
    )
    (tmp_path / "record.json").write_text(record_to_json(msgspec.structs.replace(RECORD, findings=(warning,))))
    assert main(["report", str(tmp_path / "record.json"), *options]) == code
    assert "1 warning" in capsys.readouterr().out


def test_strict_is_content_without_findings(folder):
    assert main(["report", str(folder), "--strict"]) == 0


@pytest.mark.parametrize(
    ("ended", "told"),
    [
        (Exit(code=7, reason="ValueError: boom"), "exited with 7"),
        (Exit(code=137, signal="SIGKILL"), "exited with 137"),
        (Exit(code=124, reason="timeout"), "ran into its timeout"),
    ],
)
def test_strict_fails_on_a_run_that_failed_and_says_so(tmp_path, capsys, ended, told):
    (tmp_path / "record.json").write_text(record_to_json(msgspec.structs.replace(RECORD, exit=ended)))
    assert main(["report", str(tmp_path), "--strict"]) == 1
    assert f"--strict: the command of this run {told}" in capsys.readouterr().err
    assert main(["report", str(tmp_path)]) == 0
    assert capsys.readouterr().err == ""


def test_strict_does_not_call_a_run_failed_that_has_not_ended(tmp_path, capsys):
    (tmp_path / "record.json").write_text(record_to_json(msgspec.structs.replace(RECORD, exit=Exit())))
    assert main(["report", str(tmp_path), "--strict"]) == 0
    assert capsys.readouterr().err == ""


def test_the_reader_may_go_away(folder):
    """`trueup report RUN | head -1` ends quietly."""
    report = subprocess.Popen(
        [sys.executable, "-m", "trueup", "report", str(folder), "--format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    report.stdout.close()
    assert report.stderr.read() == b""
    assert report.wait(timeout=60) == 0


def test_a_console_that_lacks_a_character_still_gets_the_report(folder):
    done = subprocess.run(
        [sys.executable, "-m", "trueup", "report", str(folder)],
        env={"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "no findings" in done.stdout


def test_the_record_so_far_of_a_running_job(tmp_path, capsys):
    """Events of a job that has not ended: the report is made from them, a torn last line included."""
    events = [
        {"t": 1.0, "kind": "process", "schema": 1, "host": "node", "pid": 7, "ppid": 1, "role": "rank", "rank": 0,
         "local_rank": 0, "world_size": 1, "argv": ["train.py"], "python": "3.11.7", "executable": "python",
         "variables": {}},
        {"t": 2.0, "kind": "steps", "first": 1, "seconds": [0.5, 0.4], "losses": [2.0, 1.5], "tokens": [None, None],
         "micro": [1, 1], "stride": 1},
    ]  # fmt: skip
    text = "".join(json.dumps(event) + "\n" for event in events) + '{"t": 3.0, "kind": "st'
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "events-node-7-1.jsonl").write_text(text)
    assert main(["report", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "2 steps" in output
    assert "loss 2 → 1.5" in output
