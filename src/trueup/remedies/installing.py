"""The exact command behind a remedy that installs something."""

from __future__ import annotations

import re
import shlex

from packaging.requirements import InvalidRequirement, Requirement

from trueup.schema.finding import Finding

PIP = re.compile(r"^pip install (?P<rest>[^(,]+?)(?:\s+\((?!or ).*|, (?!then|or ).*|: .*)?$")
"""One command to its end; one that another has to follow, or that names an example, is none."""
MEANT = re.compile(r"^(?:a )?(?P<name>[A-Za-z][\w.-]*) (?P<bound>>=|==) ?(?P<version>\d+(?:\.\d+)*)(?![\w.]*\d)")
"""`accelerate >= 1.14, which ...`."""
OPEN = re.compile(r"PACKAGE|URL|<[^<>=]+>|\$")
"""What a person has to fill in."""


def install_command(finding: Finding) -> str | None:
    """The `pip install` line of the first remedy that says one.

    None where a person must choose what to install, and for a finding that something automatic answers.
    """
    if any(remedy.automatic for remedy in finding.remedies):
        return None
    lines = (_line(remedy.how) for remedy in finding.remedies if remedy.kind == "install")
    return next((line for line in lines if line is not None), None)


def words(line: str) -> tuple[str, ...]:
    """What stands behind `pip install` in a line of `install_command`."""
    return tuple(shlex.split(line)[2:])


def _line(how: str) -> str | None:
    found = PIP.match(how)
    if found is not None:
        rest = found["rest"].strip()
        return f"pip install {rest}" if _is_exact(rest) else None
    meant = MEANT.match(how)
    if meant is not None and not OPEN.search(how):
        return f"pip install '{meant['name']}{meant['bound']}{meant['version']}'"
    return None


def _is_exact(line: str) -> bool:
    """Whether everything that is installed is a requirement with a name of its own."""
    if OPEN.search(line):
        return False
    try:
        found = [word for word in shlex.split(line) if not word.startswith("-")]
        for word in found:
            Requirement(word)
    except (ValueError, InvalidRequirement):
        return False
    return bool(found)
