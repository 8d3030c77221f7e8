"""The exact command behind a remedy that installs something."""

from __future__ import annotations

import re
import shlex

from packaging.requirements import InvalidRequirement, Requirement

PIP = re.compile(r"^pip install (?P<rest>[^(]+?)(?:\s+\(.*|,.*)?$")
MEANT = re.compile(r"^(?:a )?(?P<name>[A-Za-z][\w.-]*) (?P<bound>>=|>|==) ?(?P<version>\d[\w.]*)")
"""`accelerate >= 1.14, which ...`."""
OPEN = re.compile(r"PACKAGE|URL|<[^<>=]+>|\$")
"""What a person has to fill in."""


def install_command(how: str) -> str | None:
    """The `pip install` line that a remedy's text says; None where a person must choose what to install."""
    found = PIP.match(how)
    if found is not None:
        line = found["rest"].strip()
        return f"pip install {line}" if _is_exact(line) else None
    meant = MEANT.match(how)
    if meant is not None and not OPEN.search(how):
        return f"pip install '{meant['name']}{meant['bound']}{meant['version']}'"
    return None


def arguments(line: str) -> tuple[str, ...]:
    """The words behind `pip install` of a line of `install_command`."""
    return tuple(shlex.split(line)[2:])


def _is_exact(line: str) -> bool:
    """Whether everything that is installed is a requirement with a name of its own."""
    if OPEN.search(line):
        return False
    try:
        words = shlex.split(line)
        for word in words:
            if not word.startswith("-"):
                Requirement(word)
    except (ValueError, InvalidRequirement):
        return False
    return any(not word.startswith("-") for word in words)
