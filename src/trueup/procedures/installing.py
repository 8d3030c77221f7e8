"""Installing what findings ask for before a job is repaired: `trueup fix --yes`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from trueup.remedies.installing import install_command, words
from trueup.schema.record import Record
from trueup.schema.variant import Variant

Run = Callable[[Variant], Record]
Install = Callable[[str, Sequence[str]], None]
"""Takes the interpreter of the job and the words behind `pip install`."""


def installed_first(run: Run, install: Install, say: Callable[[str], object]) -> tuple[Run, tuple[str, ...]]:
    """Run the job as it is and install what cures a finding that no automatic remedy answers.

    Returns the function to run the job with from now on, which makes no run twice, and the commands that were run.
    """
    record = run(Variant())
    lines = wanted(record)
    if not lines:
        return _remembering(run, record), ()
    executable = os.path.expanduser(str(record.environment.get("executable") or "python"))
    for line in lines:
        say(f"installing into the environment of {executable}: {line}")
        install(executable, words(line))
    return run, lines


def wanted(record: Record) -> tuple[str, ...]:
    """The commands that install what cures the findings of a run, each once."""
    lines = [
        install_command(finding) for finding in record.findings if finding.severity != "note" and not finding.follows
    ]
    return tuple(dict.fromkeys(line for line in lines if line is not None))


def _remembering(run: Run, record: Record) -> Run:
    """`run`, whose first run of the job as it is has been made."""
    kept = [record]

    def again(variant: Variant) -> Record:
        return kept.pop() if kept and variant == Variant() else run(variant)

    return again
