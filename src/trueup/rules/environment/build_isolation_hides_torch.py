"""An isolated build cannot import the torch of the environment."""

from __future__ import annotations

import re

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import install, installed_as, said
from trueup.rules.extension_facts import broken_extensions
from trueup.rules.log_facts import is_build, mention, mentions
from trueup.rules.log_parts import frames
from trueup.schema.environment import Environment, Setting
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log

MISSING = (
    r"(?:ModuleNotFoundError|ImportError): No module named (?P<module>torch|packaging|psutil|ninja|wheel)(?![\w.])"
)
ISOLATED = re.compile(r"/pip-build-env-\w+/|/builds-v\d+/")
"""Folders of isolated builds of pip and of uv."""
IMPORT_TORCH = ("flash-attn",)
"""Packages without wheels on the index, whose `setup.py` imports torch without listing it as a build requirement."""
HINT = r"hint: [^\n]*?\b(?P<package>[\w.-]+)(?:@(?P<version>[\w.+-]+))? depends on (?P<module>[\w.-]+),? but does"


def detect_log(log: Log) -> Sighting | None:
    """The import error within a build step; at run time it is a plain missing package."""
    hint = mention(log, HINT)
    for seen in mentions(log, MISSING):
        shown = any(frames(seen.failure))
        building = is_build(log, seen.failure) if shown else is_build(log) or hint is not None
        # pip runs setup.py as a string, and prints its traceback with that one frame
        as_string = any(frame.file == "<string>" or "/tmp/" in frame.file for frame in frames(seen.failure))
        if not building and not (as_string and (hint or is_build(log))):
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


def detect_in_environment(environment: Environment) -> Sighting | None:
    return _built_against_another_torch(environment) or _will_be_built_in_isolation(environment)


def _built_against_another_torch(environment: Environment) -> Sighting | None:
    """A module that does not fit torch, and that was compiled with the headers of the torch of an isolated build."""
    torch = environment.packages.get("torch")
    for extension, symbols in broken_extensions(environment):
        headers = environment.torch_headers.get(extension.file, "")
        package = environment.packages.get(extension.package or "")
        if torch is None or package is None or not ISOLATED.search(headers):
            continue
        name = f"{package.name}=={package.version.partition('+')[0]}"
        options = f"--force-reinstall --no-deps --no-cache-dir --no-build-isolation --no-binary {package.name}"
        return Sighting(
            message=f"{package.name} was compiled in an isolated build, against the torch of that build, and does not "
            f"fit torch {torch.version}.",
            evidence=(
                installed_as(torch),
                Evidence(what="torch it was compiled with", value=f"{headers}/torch", at=extension.file),
                Evidence(what="torch releases that its symbols fit", value=extension.built_for_torch or "none"),
                Evidence(what="missing symbol", value=symbols[0], at=extension.file),
            ),
            remedies=(install(environment, name, options=options, id="build-without-isolation"),),
        )
    return None


def _will_be_built_in_isolation(environment: Environment) -> Sighting | None:
    """A project of uv that depends on such a package and does not say how to build it."""
    asked = _listed(environment, "uv.dependencies")
    isolated = _setting(environment, "uv.no-build-isolation")
    if asked is None or (isolated is not None and isolated.value == "true"):
        return None
    provided = [
        _listed(environment, f"uv.{key}")
        for key in ("sources", "no-build-isolation-package", "extra-build-dependencies")
    ]
    names = {name for each in provided if each is not None for name in each[1]}
    for package in IMPORT_TORCH:
        if package in asked[1] and package not in names and package not in environment.packages:
            return Sighting(
                message=f"uv will build {package} in isolation, where its setup.py cannot import torch.",
                evidence=(said(asked[0], "dependencies of the project"),),
                confidence="likely",
                severity="warning",
                remedies=exact(package)[::-1],
            )
    return None


def _setting(environment: Environment, name: str) -> Setting | None:
    return next((setting for setting in environment.settings if setting.name == name), None)


def _listed(environment: Environment, name: str) -> tuple[Setting, list[str]] | None:
    setting = _setting(environment, name)
    return None if setting is None else (setting, setting.value.split(","))


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
    explains=("environment/extension-cxx11-abi-mismatch", "environment/extension-torch-version-mismatch"),
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
    from_environment=detect_in_environment,
)
