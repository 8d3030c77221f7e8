"""The values of environment markers in the environment that is looked at, which is not the one that looks."""

from __future__ import annotations

from trueup.schema.environment import Environment


def markers(environment: Environment) -> dict[str, str]:
    """`python_version` and the others. https://packaging.python.org/en/latest/specifications/dependency-specifiers/"""
    known = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "extra": ""}
    if not (environment.platform or "Linux").startswith("Linux"):
        known = {"extra": ""}
    if environment.machine:
        known["platform_machine"] = environment.machine
    if environment.python:
        known["python_full_version"] = environment.python
        known["python_version"] = ".".join(environment.python.split(".")[:2])
    if (environment.python_tag or "cp").startswith("cp"):
        known |= {"implementation_name": "cpython", "platform_python_implementation": "CPython"}
    return known
