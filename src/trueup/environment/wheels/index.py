"""Releases asked of the package index, through pip: with the index, credentials and proxy that the user set for it.

pip reads the metadata of the release that fits the environment's Python and platform, and installs nothing. Source
distributions are left out, as their metadata may only be known after their code was run.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any

import msgspec

from trueup.environment.host import without_credentials
from trueup.environment.packages import normalised
from trueup.environment.wheels.offers import Offer
from trueup.schema.environment import Environment

LONGEST = 120
"""Seconds that pip gets."""
GLIBC = ("2_17", "2_24", "2_27", "2_28", "2_31", "2_34", "2_35")
"""Platform tags of Linux wheels in use; pip takes each as another platform."""


class IndexFailed(RuntimeError):
    """pip gave no answer; the message is its last line."""


def ask(requirements: Iterable[str], environment: Environment) -> tuple[Offer, ...]:
    """The release that pip would take for each requirement, without what it depends on. Raises IndexFailed."""
    command = [*_pip(), "install", "--dry-run", "--quiet", "--no-deps", "--ignore-installed", "--report", "-"]
    command += ["--disable-pip-version-check", "--no-input", *_target(environment), "--", *requirements]
    try:
        done = subprocess.run(command, capture_output=True, timeout=LONGEST, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise IndexFailed(f"pip did not answer: {type(error).__name__}") from error
    if done.returncode:
        raise IndexFailed(_last_error(done.stderr.decode("utf-8", "replace")))
    try:
        report: Any = msgspec.json.decode(done.stdout)
        return tuple(_offer(each["metadata"]) for each in report["install"])
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise IndexFailed("the report of pip was not understood") from error


def _pip() -> list[str]:
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    program = shutil.which("pip")
    if program is None:
        raise IndexFailed("there is no pip beside trueup and none on PATH")
    return [program]


def _target(environment: Environment) -> list[str]:
    """Options that make pip choose for the environment's Python and platform instead of its own."""
    options = ["--only-binary", ":all:", "--target", "."]  # required beside a foreign platform, nothing is written
    if environment.python:
        options += ["--python-version", environment.python]
    machine = environment.machine or "x86_64"
    if (environment.platform or "Linux").startswith("Linux"):
        names = [f"manylinux_{glibc}_{machine}" for glibc in GLIBC if _offers(environment, glibc)]
        for name in (f"linux_{machine}", f"manylinux2014_{machine}", *names):
            options += ["--platform", name]
    return options


def _offers(environment: Environment, glibc: str) -> bool:
    tool = environment.tools.get("glibc")
    found = (tool.version or "").split(".")[:2] if tool is not None else []
    if not all(part.isdigit() for part in found) or len(found) < 2:
        return True
    return tuple(map(int, glibc.split("_"))) <= tuple(map(int, found))


def _offer(metadata: dict[str, Any]) -> Offer:
    return Offer(
        name=normalised(str(metadata["name"])),
        version=str(metadata["version"]),
        requires=tuple(map(str, metadata.get("requires_dist") or ())),
        requires_python=metadata.get("requires_python"),
        read="the index",
    )


def _last_error(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    said = (errors or lines or ["pip failed and said nothing"])[-1]
    return without_credentials(said)[:300]
