"""An installed package is not the version that another one needs."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.environment_facts import install
from trueup.rules.requirements import Unmet, unmet
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy


def detect_in_environment(environment: Environment) -> Sighting | None:
    conda = any(package.installer == "conda" for package in environment.packages.values())
    found = [
        each
        for each in unmet(environment)
        if not (each.name == "torch" and each.installed is not None)  # environment/dependency-resolution-replaces-torch
        and not (conda and each.installed is None)  # conda names what it installs in its own way
    ]
    if not found:
        return None
    found.sort(key=lambda each: each.installed is None)  # a wrong version first, then what is missing
    more = f"; {len(found) - 1} more requirements are not met" if len(found) > 1 else ""
    return Sighting(
        message=f"{_in_words(found[0])}{more}.",
        evidence=tuple(Evidence(what=_who(each), value=each.installed or "not installed") for each in found[:8]),
        severity="warning",
        remedies=(
            install(environment, *dict.fromkeys(each.requirement for each in found[:8]), id="meet-requirements"),
        ),
    )


def _who(each: Unmet) -> str:
    return f"{each.package.name} {each.package.version} requires {each.requirement}; installed"


def _in_words(each: Unmet) -> str:
    there = f"{each.name} {each.installed} is installed" if each.installed else "it is not installed"
    return f"{each.package.name} {each.package.version} needs {each.requirement}, and {there}"


RULE = Rule(
    id="environment/installed-versions-conflict",
    title="An installed package is not the version that another one needs",
    layers=("environment",),
    severity="warning",
    silent="Installers check what they install, not what it does to packages that are already there.",
    cause="A later install moved or removed a package that an earlier one had required in a certain version.",
    remedies=(
        Remedy(
            id="meet-requirements",
            kind="install",
            automatic=False,
            how="pip check lists all; install what it names in one command, so that the resolver sees it all",
        ),
    ),
    caution="Requirements can be stricter than need be: a package may work with another version than it names.",
    sources=("https://pip.pypa.io/en/stable/cli/pip_check/",),
    from_environment=detect_in_environment,
)
