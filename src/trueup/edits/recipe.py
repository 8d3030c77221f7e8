"""The permanent changes of a recipe: each step with its diffs, its command line, or what it installs."""

from __future__ import annotations

from pathlib import Path

import msgspec

from trueup.edits.command import shown
from trueup.edits.draft import Draft
from trueup.edits.job import Job
from trueup.edits.registry import EDITORS
from trueup.remedies.installing import install_command
from trueup.schema.finding import Finding
from trueup.schema.fixing import Edit, Fixing, Step


def with_edits(fixing: Fixing, folder: Path, installed: tuple[str, ...] = ()) -> Fixing:
    """`fixing` with the permanent changes of its recipe, for the files of `folder` as they are; nothing is written.

    `installed` are the commands that were run before it.
    """
    job = Job(folder, fixing.before)
    records = [record for record in (fixing.after, fixing.before) if record is not None]
    findings = {finding.rule: finding for record in records for finding in record.findings}
    harmful = {(each.rule, each.remedy) for each in fixing.dropped if each.harmful}
    recipe = tuple(
        step if (step.rule, step.remedy) in harmful else _with_edits(step, findings.get(step.rule), job)
        for step in fixing.recipe
    )
    return msgspec.structs.replace(fixing, recipe=recipe, installed=installed)


def edits_for(remedy: str, finding: Finding, job: Job) -> tuple[tuple[Edit, ...], tuple[str, ...] | None]:
    """What `remedy` changes of a job's files, and of its command; both empty where it cannot be written safely."""
    for editor in EDITORS.get(remedy, ()):
        draft = Draft(job, finding)
        if editor(draft):
            edits = draft.edits()
            if edits or draft.command is not None:
                return edits, draft.command
    return (), None


def _with_edits(step: Step, finding: Finding | None, job: Job) -> Step:
    if finding is None:
        return step
    try:
        edits, command = edits_for(step.remedy, finding, job)
    except Exception:  # the proof has taken long: what cannot be written must not cost it
        edits, command = (), None
    return msgspec.structs.replace(
        step,
        edits=edits,
        command=shown(command) if command is not None else None,
        install=install_command(finding),
    )
