"""Installing a package replaced torch."""

from __future__ import annotations

import re

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import install, installed_as, torch_version
from trueup.rules.log_facts import mention, mentions
from trueup.rules.requirements import Unmet, unmet
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log

FOUND = r"Found existing installation: torch (?P<version>\d[\w.+]*)"
UNINSTALLED = r"(?:Uninstalling|Successfully uninstalled) torch-(?P<version>\d[\w.+]*)"
INSTALLED = r"Successfully installed [^\n]*?\btorch-(?P<version>\d[\w.+]*)"
UV_REMOVED = r"(?m)^ ?- ?torch==(?P<version>\d[\w.+]*)"
UV_ADDED = r"(?m)^ ?\+ ?torch==(?P<version>\d[\w.+]*)"
ASKED = r"(?m)(?:^|: )Collecting torch(?:[=<>~! ]|$)(?![^\n]*\(from )|pip3? install [^\n]*\btorch(?:[=<>~! ]|$)"
"""The user named torch: then it moves as asked."""


def detect_log(log: Log) -> Sighting | None:
    removed = mention(log, FOUND) or mention(log, UNINSTALLED) or mention(log, UV_REMOVED)
    added = mention(log, INSTALLED) or mention(log, UV_ADDED)
    if removed is None or mention(log, ASKED):
        return None
    before, after = (_release(each.found["version"]) if each else None for each in (removed, added))
    if before == after:
        return None
    return Sighting(
        message=f"Installing another package replaced torch {before}{f' by torch {after}' if after else ''}.",
        evidence=tuple(each.evidence(log) for each in (removed, added) if each)
        + tuple(Evidence(what="pulled in by", value=name) for name in _asking(log)),
        confidence="established" if after else "likely",
        severity="warning",
        remedies=(put_back(before), REMEDIES[1]) if before else (),
        failure=removed.failure,
    )


def _release(version: str) -> str:
    return version.rstrip(".:")


def _asking(log: Log) -> list[str]:
    """Packages that pip names behind the torch that it collects."""
    names = {seen.found["name"] for seen in mentions(log, r"Collecting torch[^\n]*\(from (?P<name>[\w.-]+)")}
    return sorted(re.sub(r"[-_.]+", "-", name) for name in names)


def put_back(version: str) -> Remedy:
    """The line that restores what was there."""
    return Remedy(
        id="restore-torch",
        kind="install",
        automatic=False,
        how=f"pip install torch=={version.partition('+')[0]}, or install again every extension that was built for "
        f"{version}",
    )


REMEDIES = (
    Remedy(
        id="restore-torch",
        kind="install",
        automatic=False,
        how="install the package with the strictest pin of torch first, then the extensions for the torch that it "
        "chose, with --no-deps",
    ),
    Remedy(
        id="pin-torch",
        kind="install",
        automatic=False,
        how="python -c \"import torch; print('torch==' + torch.__version__)\" > constraints.txt, then every further "
        "pip install with -c constraints.txt",
    ),
)


INDEX = "https://download.pytorch.org/whl"


def detect_in_environment(environment: Environment) -> Sighting | None:
    torch = environment.packages.get("torch")
    found = [each for each in unmet(environment) if each.name == "torch" and each.installed is not None]
    if torch is None or not found:
        return None
    first = found[0]
    exact = sorted({each.requirement for each in found if "==" in each.requirement})
    more = f", and so do {len(found) - 1} more packages with pins of their own" if len(found) > 1 else ""
    contradiction = f" No torch satisfies all of them: {', '.join(exact)}." if len(exact) > 1 else ""
    return Sighting(
        message=(
            f"{first.package.name} {first.package.version} needs {first.requirement}, torch {torch.version} is "
            f"installed{more}.{contradiction}"
        ),
        evidence=(
            installed_as(torch),
            *(
                Evidence(what=f"{each.package.name} {each.package.version} requires", value=each.requirement)
                for each in found
            ),
        ),
        remedies=tuple(_remedies(environment, found, exact)),
    )


def _remedies(environment: Environment, found: list[Unmet], exact: list[str]) -> list[Remedy]:
    local = str(torch_version(environment) or "").partition("+")[2]
    options = f"--index-url {INDEX}/{local}" if local else ""
    wanted = exact if len(exact) == 1 else [found[0].requirement]
    moved = install(environment, *wanted, options=options, id="install-pinned-torch")
    kept = install(
        environment,
        *(each.package.name for each in found),
        f"torch=={torch_version(environment)}",
        options="--upgrade",
        id="upgrade-what-pins-torch",
    )
    return [moved, kept]


RULE = Rule(
    id="environment/dependency-resolution-replaces-torch",
    title="Installing a package silently replaced torch",
    layers=("environment", "attention", "trainer"),
    severity="error",
    silent="pip reports success; the extensions of the old torch fail at their next import, or not at all.",
    cause=(
        "The package pins one torch, or asks for any, and the resolver may move torch up or down. Extensions that "
        "were built for the old one stay behind."
    ),
    remedies=REMEDIES,
    caution="From an undefined symbol alone only a mismatch follows: the installation must be in the log.",
    sources=("https://github.com/Dao-AILab/flash-attention/issues/1724",),
    explains=("environment/extension-cxx11-abi-mismatch", "environment/extension-torch-version-mismatch"),
    log=(
        LogText(
            text="Attempting uninstall: torch",
            versions="pip, while it installs something else",
            not_with=("Found existing installation: torch", "Uninstalling torch"),
        ),
        LogText(
            text="requires torch<pin>, but you have torch <version> which is incompatible",
            versions="pip, at the end of an installation",
        ),
        LogText(
            text="has requirement torch<pin>, but you have torch <version>",
            versions="pip check, pip 20 and older",
        ),
    ),
    from_log=detect_log,
    from_environment=detect_in_environment,
)
