"""The exact lines that install something into one environment, for pip, uv and conda."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping

from trueup.schema.environment import Environment

CONDA = re.compile(r"(?:conda|mamba|miniforge)\w*/", re.IGNORECASE)


def install(
    environment: Environment, what: Iterable[str], *, index: str | None = None, options: str = ""
) -> dict[str, str]:
    """Lines that install `what`, each from `index` when one is given."""
    return _lines(environment, [*what], f" {options}" * bool(options) + (f" --index-url {index}" if index else ""), {})


def build(environment: Environment, what: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Lines that compile `what` against the torch that is there: without isolation, so that pip shows it that torch,
    and without the cache, in which a wheel built for another torch may lie."""
    return _lines(environment, [what], " --no-build-isolation --no-cache-dir", variables)


def then(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, str]:
    """Both, one after the other."""
    return {tool: f"{line} && {second[tool]}" for tool, line in first.items() if tool in second}


def _lines(environment: Environment, what: list[str], options: str, variables: Mapping[str, str]) -> dict[str, str]:
    things = " ".join(quoted(each) for each in what)
    before = "".join(f"{name}={quoted(value)} " for name, value in variables.items())
    python = environment.executable
    pip = f"{quoted(python)} -m pip" if python else "pip"
    into = f" --python {quoted(python)}" if python else ""
    prefix = f" -p {quoted(environment.prefix)}" if environment.prefix else ""
    # uv knows --no-cache for all of its caches, and has no cache of its own for wheels built from an address
    uv_options = options.replace("--no-cache-dir", "--no-cache")
    lines = {
        "pip": f"{before}{pip} install{options} {things}",
        "uv": f"{before}uv pip install{into}{uv_options} {things}",
    }
    if _is_conda(environment):
        lines["conda"] = f"{before}conda run --no-capture-output{prefix} python -m pip install{options} {things}"
    return lines


def _is_conda(environment: Environment) -> bool:
    """`conda run` fails in any other environment. The wheels are not on conda's channels, so its pip installs them."""
    if any(package.installer == "conda" for package in environment.packages.values()):
        return True
    return bool(CONDA.search(f"{environment.prefix} {environment.executable}"))


def quoted(text: str) -> str:
    """As a shell takes it; only what needs it is quoted."""
    return shlex.quote(text)
