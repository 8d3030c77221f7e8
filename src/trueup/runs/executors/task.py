"""One run that is to be made, as a value that can be sent to another process, and the run itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from trueup.runs.executors.amending import without_note
from trueup.runs.probe import DRIFT, Probe, make_probe, offline
from trueup.runs.run import run_command
from trueup.schema.record import Record, unchanged
from trueup.schema.variant import Variant

FREE_PORT = "free-port"
"""The remedy by which launchers and stores take a port that nothing else listens on."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    """For people: `run 3: compile=off`."""
    command: tuple[str, ...]
    source: str
    """The working folder."""
    out: str
    """Where record, events and output go."""
    variant: Variant = Variant()
    steps: int | None = None
    timeout: float | None = None
    links: bool = False
    questions: dict[str, dict[str, int]] | None = None
    variables: dict[str, str] = {}
    """Set for the command, beneath those of the variant."""
    apart: bool = False
    """Whether other runs are made beside it on the same machine."""
    copied: str | None = None
    """Where the copy of the working folder is already, on a machine that does not have the folder itself."""


def again(task: Task, tried: int) -> Task:
    """The task for another try, in another folder: what is left of the try before may still write to its own."""
    return task if tried == 1 else msgspec.structs.replace(task, out=f"{task.out}-try-{tried}")


def perform(task: Task, begun: Callable[[Sequence[str]], object] = lambda limits: None) -> Record:
    """Make the run; its copy of the working folder goes when it has ended. `begun` is told what could not be copied.

    Raises CommandError, ProbeError, and KeyboardInterrupt within `Ending`.
    """
    variant = _apart(task.variant) if task.apart else task.variant
    probe = _probe_of(task)
    try:
        begun(probe.notes)
        record = run_command(
            task.command,
            out=Path(task.out),
            variant=variant,
            steps=task.steps,
            timeout=task.timeout,
            pass_output=False,
            probe=probe,
            questions=task.questions,
        )
    finally:
        probe.remove()
    if variant.remedies == task.variant.remedies:
        return record
    return without_note(record, unchanged(f"remedy {FREE_PORT}"), task.out)  # nobody asked for it


def _probe_of(task: Task) -> Probe:
    if task.copied is None:
        probe = make_probe(Path(task.source), Path(task.out) / "tree", task.links)
    else:
        copy = Path(task.copied)
        variables = {DRIFT: "1", **offline(copy.parent / "trackers")}
        probe = Probe(Path(task.source), copy, copy.parent, variables, ())
    probe.environment = {**task.variables, **probe.environment}
    return probe


def _apart(variant: Variant) -> Variant:
    if FREE_PORT in variant.remedies:
        return variant
    return msgspec.structs.replace(variant, remedies=(*variant.remedies, FREE_PORT))
