"""Candidates that are really run, each in a folder of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil

from trueup.procedures.reproduction.candidate import Candidate
from trueup.procedures.reproduction.running import Runs
from trueup.schema.bisection import Signature

ERROR = Signature(
    kind="exception",
    text="ValueError: the two do not fit",
    exception="ValueError",
    message="the two do not fit",
)
FAILS = 'import sys\nif sys.argv[2:] != ["compile"]:\n    raise ValueError("the two do not fit")\n'


def runs(source: Path, signature: Signature = ERROR, timeout: float = 60) -> Runs:
    return Runs(signature, source=source, timeout=timeout, interpreter=sys.executable)


def candidate(script: str, **options: bool) -> Candidate:
    return Candidate(script=script, launch=("python", "repro.py"), **options)  # type: ignore[arg-type]


def test_a_script_fails_and_passes_by_its_switch_observed_and_not(tmp_path: Path) -> None:
    checks = runs(tmp_path)
    found = candidate(FAILS)
    assert checks.observed(found)[0] == "fails"
    assert checks.plain(found)[0] == "fails"
    assert checks.observed(found.without("compile"))[0] == "passes"
    assert checks.plain(found.without("compile"))[0] == "passes"
    assert checks.plain(candidate("raise KeyError('x')\n"))[0] == "unresolved"
    assert list(tmp_path.iterdir()) == []


def test_only_a_script_that_is_not_alone_has_the_jobs_files(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text('def fail():\n    raise ValueError("the two do not fit")\n')
    text = "import own\n\nown.fail()\n"
    assert runs(tmp_path).plain(candidate(text, alone=False))[0] == "fails"
    assert runs(tmp_path).plain(candidate(text))[0] == "unresolved"
    assert [path.name for path in tmp_path.iterdir()] == ["own.py"]


def test_a_hang_is_ended_with_all_its_processes(tmp_path: Path) -> None:
    text = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import time; time.sleep(987)'])\n"
    checks = runs(tmp_path, Signature(kind="hang", text="hangs"), timeout=4)
    assert checks.plain(candidate(text))[0] == "fails"
    left = [
        each for each in psutil.process_iter(["cmdline"]) if "time.sleep(987)" in (each.info["cmdline"] or [""])[-1]
    ]
    assert left == []


def test_what_it_may_not_start_tells_nothing(tmp_path: Path) -> None:
    missing = Candidate(script="", launch=("no-such-launcher", "repro.py"))
    assert runs(tmp_path).observed(missing)[0] == "unresolved"
    assert runs(tmp_path).plain(missing)[0] == "unresolved"
