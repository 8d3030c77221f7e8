"""Environments and machines written by hand: what wheels for GPUs and machines with GPUs leave on disk.

They are files in the layout of their makers, not installations: CUDA wheels are too large for a test, and there is no
GPU to ask. What can be installed is installed, in `conftest.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from trueup.environment.host import Host

SITE = "lib/python3.11/site-packages"


def write(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Files by their path below `folder`."""
    for name, text in files.items():
        path = folder / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


def program(path: Path, script: str) -> Path:
    """A shell script that can be run."""
    write(path.parent, {path.name: f"#!/bin/sh\n{script}\n"})
    path.chmod(0o755)
    return path


def environment(prefix: Path, **configuration: str) -> Path:
    """The prefix of a virtual environment of Python 3.11 with nothing in it; returns its folder of packages."""
    lines = {"home": "/usr/bin", "include-system-site-packages": "false", "version": "3.11.7", **configuration}
    write(prefix, {"pyvenv.cfg": "".join(f"{key} = {value}\n" for key, value in lines.items())})
    (prefix / SITE).mkdir(parents=True)
    program(prefix / "bin" / "python", "exit 1")
    return prefix / SITE


def distribution(
    site: Path, name: str, version: str, requires: Iterable[str] = (), installer: str = "pip", **files: str
) -> Path:
    """The `.dist-info` folder of a wheel, as pip leaves it."""
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    headers = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {each}" for each in requires)]
    metadata = "Metadata-Version: 2.1\n" + "\n".join(headers) + "\n\n# A description\n\nRequires-Dist: not-a-header\n"
    write(info, {"METADATA": metadata, "INSTALLER": f"{installer}\n", **files})
    return info


def machine(root: Path, files: Mapping[str, str | bytes] | None = None, **variables: str) -> Host:
    """A machine whose files are those below `root`, with these variables and no others."""
    write(root, files or {})
    (root / "job").mkdir(parents=True, exist_ok=True)
    return Host(root=root, variables={"HOME": str(root / "home"), **variables}, folder=root / "job")
