"""What the child process is given so that it is observed: environment variables, shims on PATH, a file for bash."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import trueup.instrument
from trueup.remedies.application import Application
from trueup.remedies.registry import checked
from trueup.remedies.values import value
from trueup.runs.bash_environment import bash_environment
from trueup.runs.shims import write_late_shims, write_shims
from trueup.schema.variant import Variant

EVENTS = "TRUEUP_EVENTS"
RUN_ID = "TRUEUP_RUN_ID"
STEPS = "TRUEUP_STEPS"
SET = "TRUEUP_SET"
REMEDIES = "TRUEUP_REMEDIES"
ORDER = "TRUEUP_ORDER"
HELD = "TRUEUP_HELD"
PROBES = "TRUEUP_PROBES"
START = "TRUEUP_START"
USER_BASH_ENV = "TRUEUP_USER_BASH_ENV"
OURS = (
    *(EVENTS, RUN_ID, STEPS, SET, REMEDIES, ORDER, HELD, PROBES, START, USER_BASH_ENV),
    *("TRUEUP_SHIM", "TRUEUP_RANK_PROCESS"),
)
"""Variables that a run sets or its processes hand on; those of an outer `trueup run` must not reach an inner one."""


def bootstrap_folder() -> Path:
    """The folder with trueup's `sitecustomize`, to be put on PYTHONPATH."""
    return Path(trueup.instrument.__file__).resolve().parent / "bootstrap"


class Injection:
    """The environment of one observed command, with the temporary folder that its PATH refers to.

    A context manager: the folder (shims, bash file) goes when the run has ended. It lies in the system's temporary
    folder rather than beside the record, since a record's path may hold a colon or lie on a `noexec` mount.
    """

    def __init__(self, environment: dict[str, str], run_id: str, bootstrap: Path, folder: Path | None) -> None:
        self.environment = environment
        self.run_id = run_id
        self.bootstrap = bootstrap
        self.folder = folder
        """None when no temporary folder could be made: then a script that sets PYTHONPATH escapes observation."""

    def __enter__(self) -> Injection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def inject(
    base: Mapping[str, str],
    *,
    events: Path,
    variant: Variant = Variant(),  # noqa: B008 - a frozen value
    steps: int | None = None,
    bootstrap: Path | None = None,
    questions: Mapping[str, Mapping[str, int]] | None = None,
    start: Path | None = None,
) -> Injection:
    """The environment `base` changed so that the command started with it writes events into `events`.

    `variant` adds forced layers, remedies and environment variables; `steps` ends every rank after that many optimizer
    steps. `bootstrap` is the folder put on PYTHONPATH, by default the one that comes with trueup. `questions` are those
    of `schema.questions` that the job's own model is to answer, with their options. `start` is the folder that the
    command starts in, by default the current one: places are told relative to it, wherever the job goes.

    Raises RemedyError for remedies that are unknown or exclude each other.
    """
    bootstrap = bootstrap or bootstrap_folder()
    environment = {name: value for name, value in base.items() if name not in OURS}
    if USER_BASH_ENV in base:  # we run inside another observed run, whose file of the same kind we replace
        environment["BASH_ENV"] = base[USER_BASH_ENV]
    remedies = checked(variant.remedies)
    held = {remedy.remedy: variables for remedy in remedies if (variables := _variables(remedy, base))}
    for variables in held.values():
        environment.update(variables)
    environment.update(variant.environment)
    if held:
        environment[HELD] = json.dumps(held)
    environment["PYTHONPATH"] = _prepended(str(bootstrap), environment.get("PYTHONPATH", ""))
    environment[EVENTS] = str(events.absolute())
    environment[START] = str(start or Path.cwd())
    environment[RUN_ID] = run_id = secrets.token_hex(8)
    if steps is not None:
        environment[STEPS] = str(steps)
    if questions:
        environment[PROBES] = json.dumps(questions)
    if variant.layers:
        environment[SET] = json.dumps(variant.layers)
    if variant.order:
        environment[ORDER] = json.dumps(variant.order)
    in_process = [remedy.remedy for remedy in remedies if remedy.in_process]
    if in_process:
        environment[REMEDIES] = json.dumps(in_process)
    folder = _add_shell_support(environment, bootstrap)
    return Injection(environment, run_id, bootstrap, folder)


def _variables(remedy: Application, base: Mapping[str, str]) -> dict[str, str]:
    """The variables that a remedy sets here, those with a computed value included."""
    kinds = {kind: value(kind, base) for kind in set(remedy.computed.values())}
    computed = {name: found for name, kind in remedy.computed.items() if (found := kinds[kind]) is not None}
    return {**remedy.variables, **computed}


def _add_shell_support(environment: dict[str, str], bootstrap: Path) -> Path | None:
    """Shims on PATH and BASH_ENV, written to a new temporary folder, which is returned."""
    folder = None
    try:
        folder = Path(tempfile.mkdtemp(prefix="trueup-")).resolve()
        path = environment.get("PATH", os.defpath)
        shims, late, bash_file = folder / "shims", folder / "late", folder / "bash"
        present = write_shims(shims, bootstrap, path)
        late_names = tuple(write_late_shims(late, bootstrap, present))
        bash_file.write_text(bash_environment(bootstrap, shims, late, late_names), encoding="utf-8")
    except OSError:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        return None
    environment["PATH"] = _prepended(str(shims), path)
    environment[USER_BASH_ENV] = environment.get("BASH_ENV", "")
    environment["BASH_ENV"] = str(bash_file)
    return folder


def _prepended(entry: str, path: str) -> str:
    """`path` with `entry` first and nowhere else; the empty entries of the rest keep their meaning."""
    if not path:
        return entry
    rest = [other for other in path.split(os.pathsep) if other != entry]
    return os.pathsep.join([entry, *rest])
