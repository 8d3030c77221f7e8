"""Events of all processes of a run into one record."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from trueup import __version__
from trueup.runs.events import Events
from trueup.runs.merging.adapter import merged_adapter
from trueup.runs.merging.attention import merged_attention
from trueup.runs.merging.checkpointing import merged_checkpointing
from trueup.runs.merging.compilation import merged_compile
from trueup.runs.merging.endings import killed_first
from trueup.runs.merging.environment import merged_environment
from trueup.runs.merging.job import Job, job_of
from trueup.runs.merging.launch import merged_launch
from trueup.runs.merging.memory import merged_memory
from trueup.runs.merging.notes import merged_notes
from trueup.runs.merging.order import merged_order
from trueup.runs.merging.parts import merged_parts
from trueup.runs.merging.precision import merged_precision
from trueup.runs.merging.ranks import error_headline, merged_ranks
from trueup.runs.merging.requested import merged_requested
from trueup.runs.merging.samples import merged_samples
from trueup.runs.merging.sharding import merged_sharding
from trueup.runs.merging.steps import merged_steps
from trueup.runs.merging.training import merged_training
from trueup.runs.outcome import Outcome
from trueup.runs.redaction import redacted, redacted_command
from trueup.schema.record import (
    Actual,
    Adapter,
    Attention,
    Checkpointing,
    Compile,
    Exit,
    Launch,
    Memory,
    Note,
    Precision,
    Record,
    Sharding,
    Steps,
    Training,
)
from trueup.schema.variant import Variant

T = TypeVar("T")


def merge(
    events: Events,
    *,
    command: Sequence[str] = (),
    variant: Variant = Variant(),  # noqa: B008 - a frozen value
    started: str | None = None,
    outcome: Outcome | None = None,
    fatal_line: str | None = None,
) -> Record:
    """The record of a run. `outcome` is None while the command still runs.

    `fatal_line` is the last line of an exception in the command's output, for a command that failed without an observed
    process saying why. A part that cannot be merged (events of another version) stays empty, and a note says so.
    """
    job = job_of(events.processes)
    failed: list[Note] = []

    def part(merged: Callable[[Job], T], otherwise: T) -> T:
        try:
            return merged(job)
        except Exception as error:  # one odd event must not cost the whole record
            failed.append(Note(what=f"{merged.__name__} failed: {type(error).__name__}: {error}"))
            return otherwise

    ranks = functools.wraps(merged_ranks)(lambda job: merged_ranks(job, events, outcome))
    notes = functools.wraps(merged_notes)(lambda job: merged_notes(job, events, outcome, variant))
    record = Record(
        trueup_version=__version__,
        command=redacted_command(command),
        variant={name: value for name, value in msgspec.to_builtins(variant).items() if value},
        started=started,
        duration_s=outcome.duration_s if outcome else None,
        exit=_exit(job, outcome, fatal_line),
        environment=part(merged_environment, {}),
        launch=part(merged_launch, Launch()),
        ranks=part(ranks, ()),
        order=part(merged_order, ()),
        requested=part(merged_requested, {}),
        actual=Actual(
            compile=part(merged_compile, Compile()),
            attention=part(merged_attention, Attention()),
            sharding=part(merged_sharding, Sharding()),
            checkpointing=part(merged_checkpointing, Checkpointing()),
            precision=part(merged_precision, Precision()),
            adapter=part(merged_adapter, Adapter()),
            memory=part(merged_memory, Memory()),
            training=part(merged_training, Training()),
        ),
        steps=part(merged_steps, Steps()),
        samples=part(merged_samples, ()),
        notes=part(notes, ()),
        parts=part(merged_parts, {}),
        unknown_fields=len(events.unknown),
    )
    record = msgspec.structs.replace(record, notes=(*record.notes, *failed))
    return without_secrets(record)


def without_secrets(record: Record) -> Record:
    """The record with every text in it redacted."""
    values: Any = redacted(msgspec.to_builtins(record))
    return msgspec.convert(values, Record)


def _exit(job: Job, outcome: Outcome | None, fatal_line: str | None) -> Exit:
    if outcome is None:
        return Exit()
    reason = outcome.reason
    if reason is None and outcome.code == 0:
        ends = [member.log.last("end") or {} for member in job.trained]
        reason = "steps reached" if any(end.get("reason") == "steps reached" for end in ends) else None
    elif reason is None:
        errors = [event for member in job.ranks for event in member.log.of("error")]
        first = min(errors, key=lambda event: event.get("t") or 0.0, default=None)
        killed = killed_first(job)
        if killed is not None:  # what the others say of it came later
            reason = f"rank {killed.rank} was killed by {killed.signal}"
        else:
            reason = error_headline(first) if first is not None else fatal_line
    return Exit(code=outcome.code, signal=outcome.signal, reason=reason)
