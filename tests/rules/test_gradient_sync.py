"""Reductions of gradients in long accumulations, of which a sample sees the first backward passes only."""

import pytest
from healthy_record import record

from trueup.rules.registry import rule


def found(accumulation, reducing):
    sharding = {"strategy": "DDP", "reducing_backwards": reducing}
    actual = {"training": {"accumulation": accumulation}, "sharding": sharding}
    return rule("sharding/gradient-sync-every-micro-step").from_record(record({"actual": actual}))


def test_a_reduction_in_each_backward_pass_that_was_seen_is_enough():
    message = found(accumulation=16, reducing=8).message
    assert "in each of the first 8 of 16 backward passes" in message


@pytest.mark.parametrize(("accumulation", "reducing"), [(16, 0), (16, 1), (8, 7), (2, 1)])
def test_less_is_none(accumulation, reducing):
    assert found(accumulation, reducing) is None
