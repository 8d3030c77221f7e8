"""Real environments, built once a session with the wheels of the registry."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def run(*command: str | Path) -> str:
    return subprocess.run([*map(str, command)], check=True, capture_output=True, text=True, timeout=300).stdout


def made(folder: Path, *options: str) -> Path:
    run(sys.executable, "-m", "venv", *options, folder)
    return folder


@pytest.fixture(scope="session")
def fresh_environment(tmp_path_factory) -> Path:
    """A virtual environment as `python -m venv` leaves it."""
    return made(tmp_path_factory.mktemp("environments") / "fresh")


@pytest.fixture(scope="session")
def conflicting_environment(tmp_path_factory) -> Path:
    """An adapter library beside an older accelerate than it requires, and without what else both require."""
    prefix = made(tmp_path_factory.mktemp("environments") / "conflicting")
    run(prefix / "bin" / "python", "-m", "pip", "install", "--no-deps", "peft==0.17.0", "accelerate==0.20.3")
    return prefix


@pytest.fixture(scope="session")
def sharing_environment(fresh_environment, tmp_path_factory) -> Path:
    """An environment that sees the packages of the installation behind it, with an editable project of its own."""
    prefix = made(tmp_path_factory.mktemp("environments") / "sharing", "--system-site-packages")
    project = prefix.parent / "project"
    (project / "src" / "small_project").mkdir(parents=True)
    (project / "src" / "small_project" / "__init__.py").write_text("")
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "small-project"\nversion = "1.2"\n'
    )
    run(prefix / "bin" / "python", "-m", "pip", "install", "--no-deps", "--editable", project)
    return prefix


@pytest.fixture(scope="session")
def store(pytestconfig) -> Path:
    """Where downloaded wheels are kept from one session to the next."""
    folder = pytestconfig.rootpath / ".pytest_cache" / "d" / "wheels"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
