"""Steps, environment and the record as a whole."""

from __future__ import annotations

import math

from written_events import event, merged, notes, process, ranks, steps

from trueup.runs.events import Event, Events
from trueup.runs.merge import merge
from trueup.schema.record import record_from_json, record_to_json


def test_steps_of_a_long_job_keep_one_stride() -> None:
    record = merged(process(steps(9.0, 8.0, 7.0, 6.0, 5.0), steps(4.0, None, first=7, stride=2)))
    assert record.steps.count == 9
    assert (record.steps.stride, record.steps.losses) == (2, (9.0, 7.0, 5.0, 4.0, None))
    assert record.steps.tokens == (8, 8, 8, 8, 8)


def test_a_loss_that_is_no_number_is_told_apart_from_one_not_seen() -> None:
    record = merged(process(steps(1.0, math.nan, None, math.inf)))
    assert (record.steps.losses, record.steps.not_finite) == ((1.0, None, None, None), (2, 4))
    assert record_from_json(record_to_json(record)) == record


def gradient(step: int, replicated: float, sharded: float) -> Event:
    return event("gradient", step=step, replicated_squares=replicated, sharded_squares=sharded)


def test_the_global_gradient_norm() -> None:
    replicated = merged(*ranks(2, steps(1.0, 1.0), gradient(1, 25.0, 0.0)))
    assert replicated.steps.grad_norms == (5.0, None)
    sharded = merged(*ranks(2, steps(1.0), gradient(1, 9.0, 8.0)))
    assert sharded.steps.grad_norms == (5.0,)
    two_optimizers = merged(process(steps(1.0), gradient(1, 9.0, 0.0), gradient(1, 16.0, 0.0)))
    assert two_optimizers.steps.grad_norms == (5.0,)
    logs = ranks(2, steps(1.0), gradient(1, 9.0, 8.0))
    logs[1].events.remove(gradient(1, 9.0, 8.0))
    assert merged(*logs).steps.grad_norms == (None,)


def test_versions_variables_and_secrets() -> None:
    log = process(
        event("library", name="torch", version="2.13.0", detail={"cuda": None}),
        event("library", name="flash_attn", version="2.8"),
        event("request", layer="trainer", setting="hub_token", value="hf_" + "a" * 30),
        steps(1.0),
        variables={"NCCL_DEBUG": "INFO", "TORCH_HUB_TOKEN": "x"},
    )
    record = merge(Events(processes=[log]), command=("python", "t.py", "--api-key", "abc"))
    assert record.environment["torch"] == "2.13.0"
    assert record.environment["packages"] == {"torch": "2.13.0", "flash-attn": "2.8"}
    assert record.environment["variables"] == {"NCCL_DEBUG": "INFO", "TORCH_HUB_TOKEN": "***"}
    assert record.command == ("python", "t.py", "--api-key", "***")
    assert record.requested["trainer"] == {"hub_token": "***"}


def test_an_odd_event_costs_one_part_and_not_the_record() -> None:
    odd = [event("steps", first="x", seconds=7, losses="y", stride=None), event("sample", modules=3, step=None)]
    odd += [event("model", parameters=[], sharding=4, optimizer="z"), event("compile"), event("layer", layer="compile")]
    odd += [event("gradient"), event("memory", peak_bytes="9"), event("error", chain=5), event("launcher", nodes="n")]
    record = merged(process(*odd), process(*odd, rank=0, world_size="w", variables=7, start=3.0), code=1)
    assert [rank.rank for rank in record.ranks]
    assert "failed" not in notes(record)
    broken = merged(
        process(steps(1.0), event("layer", layer="compile", event="x", t="yesterday"), event("layer", layer="compile"))
    )
    assert broken.steps.count == 1
    assert "merged_order failed" in notes(broken)


def test_the_drift_of_each_rank_is_kept() -> None:
    record = merged(*ranks(2, steps(1.0), event("drift", step=1, changes=[0.5, -1e-3])))
    assert [(drift.rank, drift.step, drift.changes) for drift in record.steps.drifts] == [
        (rank, 1, (0.5, -1e-3)) for rank in (0, 1)
    ]
    broken = merged(process(steps(1.0), event("drift", step=1, changes=[0.5, math.nan])))
    assert broken.steps.drifts == ()
