"""Reductions of gradients in long accumulations, of which a sample sees the first backward passes only."""

import pytest
from healthy_record import record

from trueup.rules.registry import rule


def found(accumulation, seen, reducing):
    exchange = {"step": 2, "backwards": seen, "reducing_backwards": reducing}
    sharding = {"strategy": "DDP", "reducing_backwards": reducing, "exchanges": [exchange]}
    actual = {"training": {"accumulation": accumulation}, "sharding": sharding}
    return rule("sharding/gradient-sync-every-micro-step").from_record(record({"actual": actual}))


def test_a_reduction_in_each_backward_pass_that_was_seen_is_enough():
    message = found(accumulation=16, seen=8, reducing=8).message
    assert "in each of the first 8 of 16 backward passes" in message


@pytest.mark.parametrize(("accumulation", "seen", "reducing"), [(16, 8, 0), (16, 8, 1), (8, 8, 7), (2, 1, 1)])
def test_what_is_reduced_once_is_none(accumulation, seen, reducing):
    assert found(accumulation, seen, reducing) is None
