"""`trueup run`: the command's output and exit code stay its own; reports go where the contract says."""

import json
import os
import subprocess
import sys

import pytest

from trueup.cli import exits
from trueup.schema.finding import Finding
from trueup.schema.record import Exit, Record, record_from_json


def trueup_run(*arguments, cwd, **options):
    return subprocess.run(
        [sys.executable, "-m", "trueup", "run", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


def python(code):
    return ["--", sys.executable, "-c", code]


def test_output_and_exit_code_are_the_commands_own(tmp_path):
    done = trueup_run(*python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"), cwd=tmp_path)
    assert done.returncode == 7
    assert done.stdout == "out\n"
    assert "err\n" in done.stderr
    assert "trueup: failed with exit code 7" in done.stderr


def test_files_of_the_default_folder(tmp_path):
    done = trueup_run(*python("pass"), cwd=tmp_path)
    assert done.returncode == 0
    (folder,) = (tmp_path / ".trueup" / "runs").iterdir()
    record = record_from_json((folder / "record.json").read_text())
    assert record.exit.code == 0
    assert "<!doctype html>" in (folder / "report.html").read_text()
    assert f"record  {folder.relative_to(tmp_path) / 'record.json'}" in done.stderr


def test_a_command_without_the_dashes(tmp_path):
    done = trueup_run("--quiet", sys.executable, "-c", "import sys; print(sys.argv[1:])", "--steps", "3", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "['--steps', '3']\n", "")


def test_dashes_of_the_command_are_the_commands(tmp_path):
    done = trueup_run("--quiet", *python("import sys; print(sys.argv[1:])"), "--", "--json", "x", cwd=tmp_path)
    assert done.stdout == "['--', '--json', 'x']\n"
    assert not (tmp_path / "x").exists()


def test_json_comes_after_the_commands_output(tmp_path):
    done = trueup_run("--format", "json", *python("print('mine')"), cwd=tmp_path)
    first, _, rest = done.stdout.partition("\n")
    assert first == "mine"
    assert json.loads(rest)["exit"]["code"] == 0
    assert "trueup:" not in done.stderr


def test_files_that_were_asked_for(tmp_path):
    done = trueup_run("--json", "a/r.json", "--report", "b/r.html", "--out", "c", *python("pass"), cwd=tmp_path)
    assert done.returncode == 0
    assert record_from_json((tmp_path / "a/r.json").read_text()) == record_from_json(
        (tmp_path / "c/record.json").read_text()
    )
    assert "<!doctype html>" in (tmp_path / "b/r.html").read_text()


def test_a_timeout_exits_124(tmp_path):
    done = trueup_run("--timeout", "1.5", *python("import time; time.sleep(600)"), cwd=tmp_path)
    assert done.returncode == exits.TIMEOUT
    assert "stopped by --timeout" in done.stderr


@pytest.mark.parametrize(("code", "exit_code"), [("pass", exits.OWN_FAILURE), ("raise SystemExit(9)", 9)])
def test_our_own_failure_never_masks_the_commands(tmp_path, code, exit_code):
    """The report cannot be written where the job put a file in the place of its folder."""
    job = python(f"open('blocked', 'w'); {code}")
    done = trueup_run("--out", "run", "--json", "blocked/r.json", *job, cwd=tmp_path)
    assert record_from_json((tmp_path / "run" / "record.json").read_text()).exit.code in (0, 9)
    assert done.returncode == exit_code
    assert "trueup: cannot use blocked" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_that_cannot_be_made_harms_nothing(tmp_path):
    (tmp_path / ".trueup").write_text("")
    done = trueup_run(*python("print('mine')"), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "mine\n")
    assert "no record is kept" in done.stderr
    assert "record  " not in done.stderr


def test_a_command_that_does_not_exist(tmp_path):
    done = trueup_run("--", "no-such-command-anywhere", cwd=tmp_path)
    assert done.returncode == 127
    assert "no-such-command-anywhere" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_script_that_does_not_exist_is_the_headline(tmp_path):
    done = trueup_run("--", sys.executable, "nowhere.py", cwd=tmp_path)
    headline = next(line for line in done.stderr.splitlines() if line.startswith("trueup: "))
    assert headline.startswith("trueup: failed with exit code 2: can't open file ")
    assert "nowhere.py" in headline


def test_what_is_forced_is_said(tmp_path):
    done = trueup_run("--set", "compile=off", *python("pass"), cwd=tmp_path)
    assert "trueup: forced compile=off; " in done.stderr
    assert "\nforced    compile=off\n" in done.stderr
    (folder,) = (tmp_path / ".trueup" / "runs").iterdir()
    assert "variant compile=off" in (folder / "report.html").read_text()


def test_a_variant_reaches_the_command(tmp_path):
    (tmp_path / "v.toml").write_text('name = "threads"\n[environment]\nMY_SETTING = "5"\n')
    done = trueup_run("--with", "v.toml", *python("import os; print(os.environ['MY_SETTING'])"), cwd=tmp_path)
    assert done.stdout == "5\n", done.stderr
    (folder,) = (tmp_path / ".trueup" / "runs").iterdir()
    assert record_from_json((folder / "record.json").read_text()).variant["name"] == "threads"


def test_no_colour_and_no_progress_when_piped(tmp_path):
    done = trueup_run(*python("pass"), cwd=tmp_path, env={**os.environ, "FORCE_COLOR": "1"})
    assert "\x1b" not in done.stderr


def finding(severity):
    return Finding(
        rule="compile/x", layers=("compile",), severity=severity, confidence="likely", message="m", cause="c"
    )


@pytest.mark.parametrize(
    ("ended", "severity", "strict", "code"),
    [
        (Exit(code=0), "error", False, 0),
        (Exit(code=0), "error", True, 1),
        (Exit(code=0), "warning", True, 1),
        (Exit(code=0), "note", True, 0),
        (Exit(code=5), "error", True, 5),
        (Exit(code=137, signal="SIGKILL"), "note", False, 137),
        (Exit(code=143, reason="timeout"), "note", False, 124),
        (Exit(), "note", False, 3),
    ],
)
def test_exit_codes(ended, severity, strict, code):
    assert exits.of_run(Record(exit=ended, findings=(finding(severity),)), strict=strict) == code
