"""Runs on a real Ray cluster of two machines, both of them this one. Ray is installed beside, not into, the tests."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trueup.runs.executors import ExecutorError, executor_for

CONFLICT = Path(__file__).parents[2] / "gauntlet" / "adapter" / "reentrant-checkpoint-no-graph" / "train.py"
DRIVER = Path(__file__).with_name("ray_driver.py")
WITHOUT = """
import sys
sys.modules["ray"] = None
from trueup.runs.executors import ExecutorError, executor_for
try:
    executor_for("ray")
except ExecutorError as error:
    print(error)
"""


def test_without_ray_it_is_said_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=60, check=True)
    assert "pip install 'trueup[ray]'" in done.stdout


def test_resources_of_no_amount_are_refused_before_ray_is_asked() -> None:
    with pytest.raises(ExecutorError, match="CPU=2,GPU=1"):
        executor_for("ray", resources="GPU=many")


@pytest.fixture(scope="session")
def ray_folder(pytestconfig: pytest.Config) -> Path | None:
    """A folder of packages with Ray, kept from one session to the next; None where it is installed anyway."""
    if importlib.util.find_spec("ray") is not None:
        return None
    folder = pytestconfig.rootpath / ".pytest_cache" / "d" / "ray"
    if not (folder / "done").exists():
        line = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), "ray>=2.30"]
        done = subprocess.run(line, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            pytest.skip(f"Ray cannot be installed: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
        (folder / "done").touch()
    return folder


@pytest.fixture
def drive(tmp_path: Path, ray_folder: Path | None) -> Callable[[str], dict[str, Any]]:
    def driven(scenario: str) -> dict[str, Any]:
        (tmp_path / "notes").mkdir()
        (tmp_path / "work").mkdir()
        (tmp_path / "work" / "beside.txt").write_text("beside")
        entries = filter(None, (str(ray_folder or ""), os.environ.get("PYTHONPATH")))
        done = subprocess.run(
            [sys.executable, str(DRIVER), scenario, str(tmp_path / "notes")],
            cwd=tmp_path / "work",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(entries), "RAY_USAGE_STATS_ENABLED": "0"},
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
            start_new_session=True,
        )
        assert done.returncode == 0, done.stderr
        told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        assert told["left"] == []
        assert told["left after all"] == []
        assert told["trees"] == []
        return told

    return driven


slow = pytest.mark.slow
network = pytest.mark.network


@slow
@network
def test_the_answers_come_back_in_order(drive: Callable[[str], dict[str, Any]], tmp_path: Path) -> None:
    told = drive("plain")
    assert told["at_once"] == 2
    assert told["codes"] == [0, 3]
    assert told["output"] == [True, True]
    assert told["executor"] == []
    assert told["ports"] == 2
    assert all(place.startswith(str(tmp_path)) and place.endswith(" beside") for place in told["places"])
    assert told["threads"] == ["as in the shell"] * 2, "Ray's number of threads would change what is added up first"


@slow
@network
@pytest.mark.parametrize(
    ("scenario", "why"),
    [
        ("worker", "its worker was lost (WorkerCrashedError)"),
        ("machine", "its worker was lost (NodeDiedError)"),
        ("keeper", "the process that makes it was killed"),
    ],
)
def test_a_lost_run_is_made_again(drive: Callable[[str], dict[str, Any]], scenario: str, why: str) -> None:
    told = drive(scenario)
    assert told["codes"] == [0, 3]
    assert told["executor"] == [f"run 2: n3: {why}; it is run again"]
    assert "tries" not in str(told["notes"][0])
    assert f"made in 2 tries: {why}" in told["notes"][1]
    assert len(told["places"]) == 3


@slow
@network
@pytest.mark.parametrize("scenario", ["interrupt", "terminal"])
def test_an_interrupt_leaves_no_process_on_the_workers(drive: Callable[[str], dict[str, Any]], scenario: str) -> None:
    """One that reaches trueup alone, and one from a terminal, whose whole foreground group gets it."""
    told = drive(scenario)
    assert told["interrupted"] is True
    assert told["children"] == 0
    assert len(told["places"]) == 2


@slow
@network
def test_a_machine_with_another_disk_gets_a_copy(drive: Callable[[str], dict[str, Any]], tmp_path: Path) -> None:
    told = drive("shipped")
    assert told["codes"] == [0, 3]
    assert told["output"] == [True, True]
    assert all(not place.startswith(str(tmp_path)) and place.endswith(" beside") for place in told["places"])


@slow
@network
def test_what_no_machine_has_is_refused(drive: Callable[[str], dict[str, Any]]) -> None:
    assert "no machine of the Ray cluster has CPU=1,GPU=3" in drive("too much")["refused"]


@slow
@network
def test_a_bisect_on_two_workers_of_which_one_is_lost_gives_the_same_answer(
    tmp_path: Path, ray_folder: Path | None
) -> None:
    shutil.copy(CONFLICT, tmp_path / "train.py")
    entries = filter(None, (str(ray_folder or ""), os.environ.get("PYTHONPATH")))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entries), "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(
        [sys.executable, str(DRIVER.with_name("ray_bisect.py")), sys.executable, "train.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert set(result["minimal"]) == {"adapter", "checkpointing"}
    assert result["one_minimal"]
    assert any("its worker was lost" in note for note in result["notes"]), result["notes"]
