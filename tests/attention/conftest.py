"""flash-attn's own Python layer over the stand-in of its extension: one folder of packages a version."""

from __future__ import annotations

import fcntl
import functools
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from trueup.attention.cpu.building import built_extension
from trueup.attention.cpu.packages import OPERATORS, flash_attn_on_cpu

SOURCES = ["--no-binary", ":all:", "--no-build-isolation"]


@pytest.fixture(scope="session")
def flash_attn_packages(pytestconfig) -> Callable[[str], Path]:
    """A function from a version of flash-attn to a folder for PYTHONPATH, with einops that flash-attn requires.

    Tests that use it are marked `network`: what is downloaded and built is kept beside pytest's cache. One version a
    process: flash_attn registers its operators once.
    """
    store = pytestconfig.rootpath / ".pytest_cache" / "d" / "attention"
    store.mkdir(parents=True, exist_ok=True)

    def packages(version: str) -> Path:
        with (store / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # other workers want the same
            extension = built_extension(store / "builds")
            folder = store / "packages" / f"{version}-{extension.parent.name}-{int(OPERATORS.stat().st_mtime)}"
            if not (folder / "done").exists():
                source = _downloaded(store / "sources", f"flash-attn=={version}", *SOURCES)
                flash_attn_on_cpu(source, folder, store / "builds")
                _pip("install", "--target", folder, "einops==0.8.1")
                (folder / "done").touch()
        return folder

    return packages


@pytest.fixture(scope="session")
def flash_attn_checks(pytestconfig) -> Callable[[str], str]:
    """A function from a version of flash-attn to the source of its extension's entry points (csrc/flash_attn)."""
    store = pytestconfig.rootpath / ".pytest_cache" / "d" / "attention"
    store.mkdir(parents=True, exist_ok=True)

    @functools.cache
    def source(version: str) -> str:
        with (store / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            archive = _downloaded(store / "sources", f"flash-attn=={version}", *SOURCES)
        with tarfile.open(archive) as files:
            entry = files.extractfile(f"flash_attn-{version}/csrc/flash_attn/flash_api.cpp")
            assert entry is not None
            return entry.read().decode()

    return source


def _downloaded(store: Path, requirement: str, *options: str) -> Path:
    pattern = f"flash_attn-{requirement.partition('==')[2]}.tar.gz"
    if not (store / pattern).exists():
        _pip("download", *options, "--dest", store, requirement)
    return store / pattern


def _pip(command: str, *options: str | Path) -> None:
    line = [sys.executable, "-m", "pip", command, "--quiet", "--no-deps", *map(str, options)]
    environment = {**os.environ, "FLASH_ATTENTION_SKIP_CUDA_BUILD": "TRUE"}
    done = subprocess.run(line, capture_output=True, text=True, timeout=600, env=environment, check=False)
    if done.returncode and "connection" in done.stderr.lower():
        pytest.skip(f"the registry is not reached: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
