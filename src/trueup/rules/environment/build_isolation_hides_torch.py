"""An isolated build cannot import the torch of the environment."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.log_facts import is_build, mention, mentions, passes
from trueup.rules.log_parts import frames
from trueup.schema.finding import Remedy
from trueup.schema.log import Log

MISSING = (
    r"(?:ModuleNotFoundError|ImportError): No module named (?P<module>torch|packaging|psutil|ninja|wheel)(?![\w.])"
)
HINT = r"hint: [^\n]*?\b(?P<package>[\w.-]+)(?:@(?P<version>[\w.+-]+))? depends on (?P<module>[\w.-]+),? but does"


def detect_log(log: Log) -> Sighting | None:
    """The import error within a build step; at run time it is a plain missing package."""
    hint = mention(log, HINT)
    for seen in mentions(log, MISSING):
        shown = any(frames(seen.failure))
        building = is_build(log, seen.failure) if shown else is_build(log) or hint is not None
        if shown and not building and not passes(seen.failure, "<string>", "/tmp/"):
            continue
        if not building and not hint:
            continue
        package = hint.found["package"] if hint else None
        return Sighting(
            message=f"The build{f' of {package}' if package else ''} could not import {seen.found['module']}.",
            evidence=(seen.evidence(log), *((hint.evidence(log),) if hint else ())),
            remedies=exact(package) if package else (),
            failure=seen.failure,
        )
    if hint:
        package = hint.found["package"]
        return Sighting(
            message=f"The build of {package} could not import {hint.found['module']}.",
            evidence=(hint.evidence(log),),
            remedies=exact(package),
            failure=hint.failure,
        )
    return None


def exact(package: str) -> tuple[Remedy, ...]:
    """The commands for this package."""
    return (
        Remedy(
            id="no-build-isolation",
            kind="install",
            automatic=False,
            how="pip install packaging psutil ninja wheel setuptools, then pip install --no-build-isolation "
            f"{package}   (uv pip install --no-build-isolation-package {package} {package})",
        ),
        Remedy(
            id="declare-build-dependency",
            kind="config-edit",
            automatic=False,
            how=f'[tool.uv.extra-build-dependencies] {package} = [{{ requirement = "torch", match-runtime = true }}]',
        ),
    )


RULE = Rule(
    id="environment/build-isolation-hides-torch",
    title="Isolated build cannot see torch",
    layers=("environment",),
    severity="error",
    silent="",
    cause=(
        "The package imports torch in its setup.py and does not list it as a build requirement, so that the isolated "
        "environment in which pip or uv builds it has none."
    ),
    remedies=(
        Remedy(
            id="no-build-isolation",
            kind="install",
            automatic=False,
            how="pip install torch packaging psutil ninja wheel setuptools, then pip install --no-build-isolation "
            "PACKAGE   (uv pip install --no-build-isolation-package PACKAGE PACKAGE)",
        ),
        Remedy(
            id="install-wheel-by-url",
            kind="install",
            automatic=False,
            how="pip install URL of a wheel for this Python, torch, CUDA and C++ ABI",
        ),
    ),
    caution="The same ModuleNotFoundError outside of a build step is a package that is not installed.",
    sources=("https://github.com/whyNLP/LCKV/issues/17",),
    log=(
        LogText(
            text="ModuleNotFoundError: No module named 'torch'",
            strength="supporting",
            versions="pip and uv inside a build step; anywhere else a missing package",
            inside=("pip-build-env", "pip-install", "/builds-v0/", "build_meta.py"),
        ),
        *(
            LogText(
                text=f"ModuleNotFoundError: No module named '{module}'",
                strength="supporting",
                versions="pip and uv inside a build step",
                inside=("pip-build-env", "pip-install", "/builds-v0/", "build_meta.py"),
            )
            for module in ("packaging", "psutil", "wheel", "ninja")
        ),
        LogText(
            text="not supporting PEP 517 builds",
            strength="supporting",
            versions="poetry",
        ),
    ),
    from_log=detect_log,
)
