"""A layer that was to be forced and was not is told; one that was is not mentioned."""

from __future__ import annotations

from typing import Any

from written_events import event, notes, process, steps

from trueup.runs.events import Event, Events, ProcessEvents
from trueup.runs.merge import merge
from trueup.runs.outcome import Outcome
from trueup.schema.record import Record
from trueup.schema.variant import Variant

ASKED = Variant(layers={"sharding": "off"})


def applier(layer: str = "sharding", **detail: Any) -> Event:
    return event("applier", applier=layer, module="Model", detail={"value": "off", **detail})


def merged(*logs: ProcessEvents, ended: bool = True, variant: Variant = ASKED) -> Record:
    return merge(Events(processes=list(logs)), variant=variant, outcome=Outcome(code=0) if ended else None)


def test_a_switch_without_any_change_is_told() -> None:
    record = merged(process(applier("compile", change="runs eager"), steps(1.0)))
    assert notes(record) == (
        "--set sharding=off was asked for and nothing was changed: "
        "the job asks for nothing of this kind, or for just that"
    )


def test_a_switch_that_could_not_work_is_told_with_its_reasons() -> None:
    record = merged(
        process(applier(cannot="tensor parallelism is not switched"), steps(1.0), rank=0),
        process(applier(cannot="tensor parallelism is not switched"), steps(1.0), rank=1),
    )
    assert "nothing was changed: tensor parallelism is not switched" in notes(record)
    assert notes(record).count("tensor parallelism") == 1


def test_a_switch_that_worked_in_part_is_told() -> None:
    record = merged(process(applier(change="strategy NO_SHARD"), applier(cannot="ZeRO is not switched"), steps(1.0)))
    assert notes(record) == "--set sharding=off did not reach everything: ZeRO is not switched"


def test_a_switch_that_worked_needs_no_note() -> None:
    assert merged(process(applier(change="strategy NO_SHARD"), steps(1.0))).notes == ()


def test_a_change_in_the_process_that_forked_the_ranks_counts() -> None:
    parent = process(applier(change="strategy NO_SHARD"), start=1.0)
    assert merged(parent, process(steps(1.0), start=2.0)).notes == ()


def test_nothing_is_said_while_the_job_runs_or_when_nothing_was_asked() -> None:
    assert merged(process(steps(1.0)), ended=False).notes == ()
    assert merged(process(steps(1.0)), variant=Variant()).notes == ()
