"""Wheels of the registry, downloaded once and kept beside pytest's cache; nothing of them is imported."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from compiled import installed_torch

from trueup.environment.torch_build import torch_facts

PLATFORMS = ("manylinux1", "manylinux2014", "manylinux_2_17", "manylinux_2_24", "manylinux_2_27", "manylinux_2_28")


def unpacked(store: Path, requirement: str) -> Path:
    """A folder of packages that holds the wheel for Python 3.10, downloaded at the first time."""
    return _kept(store, requirement, lambda place: _downloaded(requirement, place))


def built(store: Path, requirement: str) -> Path:
    """A folder of packages that holds what is built of a source distribution, without any compiled code of its own."""
    return _kept(store, requirement, lambda place: _built(requirement, place))


def skip_unless_cpu_torch_2_13() -> None:
    """The verdicts of these tests are on one torch, and the wheels are for one machine."""
    if os.uname().machine != "x86_64":
        pytest.skip("these wheels are for x86_64")
    facts = torch_facts(installed_torch())
    if facts is None or not facts.version.startswith("2.13.") or facts.cuda is not None:
        pytest.skip("the verdicts are on torch 2.13 for CPUs")


def _kept(store: Path, requirement: str, wheel_into) -> Path:
    place = store / requirement.replace("==", "-")
    with (store / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other workers want the same wheels
        if not (place / "done").exists():
            wheel_into(place)
            (wheel,) = place.glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(place / "site-packages")
            wheel.unlink()
            (place / "done").touch()
    return place / "site-packages"


def _downloaded(requirement: str, place: Path) -> None:
    platforms = [part for name in PLATFORMS for part in ("--platform", f"{name}_x86_64")]
    _pip("download", "--only-binary", ":all:", *platforms, "--python-version", "310", "--dest", place, requirement)


def _built(requirement: str, place: Path) -> None:
    _pip("wheel", "--no-build-isolation", "--wheel-dir", place, requirement)


def _pip(command: str, *options: str | Path) -> None:
    line = [sys.executable, "-m", "pip", command, "--quiet", "--no-deps", *map(str, options)]
    done = subprocess.run(
        line, capture_output=True, text=True, timeout=600, env={**os.environ, "DS_BUILD_OPS": "0"}, check=False
    )
    if done.returncode and "connection" in done.stderr.lower():
        pytest.skip(f"the registry is not reached: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
