"""`trueup doctor`: what is installed and attached, and what of it does not fit together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trueup.cli.exits import FINDINGS
from trueup.cli.output import format_option, is_coloured, json_option, printed_on, save, width_of, write

if TYPE_CHECKING:
    from collections.abc import Callable

    from trueup.schema.diagnosis import Diagnosis
    from trueup.schema.environment import Environment
    from trueup.schema.wheels import Resolution

SEVERITIES = ("error", "warning", "note")
"""As in schema.finding, which `--help` is not to wait for."""


@click.command(short_help="Find what does not fit together in an environment, importing none of it.")
@click.option("--python", metavar="PATH", help="Look at the environment of this interpreter.")
@click.option("--env", "folder", metavar="DIR", help="Look at the environment in this folder.")
@click.option(
    "--for", "package", metavar="PACKAGE", help="Say which wheel of PACKAGE fits here, and what installing it moves."
)
@click.option("--online", is_flag=True, help="With --for: let pip ask the package index what PACKAGE requires.")
@json_option()
@click.option(
    "--fail-on",
    "least",
    type=click.Choice(SEVERITIES),
    default="note",
    show_default=True,
    help="Exit 1 from findings of this severity on.",
)
@click.option("--strict", "least", flag_value="warning", help="Exit 1 for a warning or an error: --fail-on warning.")
@format_option()
def doctor(
    python: str | None,
    folder: str | None,
    package: str | None,
    online: bool,
    json_file: Path | None,
    least: str,
    shape: str,
) -> int:
    """Read an environment and its machine from files alone, and say what will fail or silently do nothing.

    Without --python and --env it is the active environment, else the one that trueup is installed in, else that of
    `python` on PATH. Nothing of it is imported, no Python of it is started.

    \b
      trueup doctor
      trueup doctor --python /opt/conda/envs/train/bin/python
      trueup doctor --env .venv --format json
      trueup doctor --for flash-attn
      trueup doctor --for 'flash-attn<2.8'
      trueup doctor --for vllm --online

    \b
    Exit codes: 0 nothing found, 1 findings, or a package that does not fit or would move others, 2 wrong usage,
    3 trueup itself failed
    """
    if python is not None and folder is not None:
        raise click.UsageError("--python and --env name the same thing; give one of them")
    if online and package is None:
        raise click.UsageError("--online goes with --for PACKAGE")
    diagnosis = redacted(diagnosed(python, folder, package, online))
    asked_in_vain = diagnosis.wheels is not None and diagnosis.wheels.verdict != "fits"
    write(printed_on(), presentation(diagnosis, shape))
    if json_file is not None:
        save(presentation(diagnosis, "json"), json_file)
    counted = SEVERITIES[: SEVERITIES.index(least) + 1]
    return FINDINGS if asked_in_vain or any(each.severity in counted for each in diagnosis.findings) else 0


def diagnosed(python: str | None, folder: str | None, package: str | None = None, online: bool = False) -> Diagnosis:
    """The facts of the environment that was named, judged; with a package, which of its wheels fits."""
    from trueup import __version__
    from trueup.environment.collecting import collect
    from trueup.environment.host import Host
    from trueup.environment.target import TargetError, target_of
    from trueup.rules import judge_environment
    from trueup.schema.diagnosis import Diagnosis

    wheels_of = None if package is None else resolver_of(package, online)
    host = Host()
    try:
        target = target_of(host, python=python, folder=folder)
    except TargetError as error:
        raise click.UsageError(str(error)) from error
    facts = collect(target, host)
    return Diagnosis(
        facts=facts,
        findings=judge_environment(facts),
        wheels=None if wheels_of is None else wheels_of(facts),
        trueup_version=__version__,
    )


def resolver_of(package: str, online: bool) -> Callable[[Environment], Resolution]:
    """What answers for a package; a name that is not known is said before anything is read."""
    from trueup.environment.wheels.index import ask
    from trueup.environment.wheels.knowledge import UnknownPackage
    from trueup.environment.wheels.resolving import requirement_of, resolve

    try:
        requirement_of(package)
    except UnknownPackage as error:
        raise click.UsageError(str(error)) from error

    def resolved(facts: Environment) -> Resolution:
        try:
            return resolve(facts, package, ask if online else None)
        except UnknownPackage as error:
            raise click.UsageError(str(error)) from error

    return resolved


def presentation(diagnosis: Diagnosis, shape: str) -> str:
    """The diagnosis in one of FORMATS."""
    from trueup.reports import diagnosis as report

    if shape == "text":
        return report.as_text(diagnosis, width=width_of(printed_on()), colour=is_coloured(printed_on()))
    return {"json": report.as_json, "sarif": report.as_sarif, "html": report.as_html}[shape](diagnosis)


def redacted(diagnosis: Diagnosis) -> Diagnosis:
    """Without tokens and credentials, and with the home folder written `~`, which a shell reads back."""
    from trueup.runs.redaction import redacted as without_secrets

    cleaned: Diagnosis = without_secrets(diagnosis)
    return cleaned
