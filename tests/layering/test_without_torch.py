"""The commands that need no torch work where there is none, or a broken one, and start without the heavy libraries."""

import subprocess
import sys
from pathlib import Path

import pytest

from trueup.schema.record import Record, record_to_json

USER_LIBRARIES = ("torch", "transformers", "accelerate", "peft", "numpy")
RUN_WITHOUT = """
import sys
for name in {blocked!r}:
    sys.modules[name] = None  # importing it raises, as in an environment without it
from trueup.cli import main
code = main(sys.argv[1:])
for name in {absent!r}:
    if sys.modules.get(name) is not None:
        sys.exit(f"{{name}} was imported")
sys.exit(code)
"""


def run_without(*arguments: str, absent: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    program = RUN_WITHOUT.format(blocked=USER_LIBRARIES, absent=absent)
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def record_file(tmp_path) -> Path:
    file = tmp_path / "record.json"
    file.write_text(record_to_json(Record(command=("python", "train.py"))))
    return file


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["run", "--help"], ["rules", "--help"]])
def test_help_loads_no_heavy_library(arguments):
    done = run_without(*arguments, absent=("rich", "jinja2", "msgspec", "psutil", "trueup.rules", "trueup.runs"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "trueup" in done.stdout


def test_rules_work_without_torch():
    done = run_without("rules")
    assert (done.returncode, done.stderr) == (0, "")
    assert "compile/" in done.stdout


@pytest.mark.parametrize("shape", ["text", "json", "sarif", "html"])
def test_reports_work_without_torch(record_file, shape):
    done = run_without("report", str(record_file), "--format", shape)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_a_command_runs_without_torch_in_trueups_own_environment(tmp_path):
    done = run_without("run", "--out", str(tmp_path / "run"), "--", sys.executable, "-c", "print(40 + 2)")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "42\n"
    assert (tmp_path / "run" / "record.json").is_file()


def test_a_library_that_is_imported_is_noticed(record_file):
    done = run_without("report", str(record_file), absent=("rich",))
    assert done.returncode == 1
    assert "rich was imported" in done.stderr
