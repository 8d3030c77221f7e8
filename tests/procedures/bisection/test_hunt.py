"""The hunt for the smallest failing set, on planted faults: right, in few runs, and whether or not they come and go."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from trueup.procedures.bisection.hunt import Hunt

LAYERS = ["environment", "launcher", "attention", "adapter", "precision", "checkpointing", "compile", "sharding"]


def hunted(culprits: frozenset[str], missed: float, draw: random.Random, at_once: int = 1) -> tuple[Hunt, list]:
    """A hunt as the walk makes it: the control, the whole until it fails, then what is asked for."""
    hunt, runs = Hunt(LAYERS), []

    def run(on: frozenset[str]) -> bool:
        fails = culprits <= on and draw.random() >= missed
        hunt.saw(on, "fails" if fails else "passes")
        runs.append(on)
        return fails

    run(frozenset())
    while not run(frozenset(LAYERS)):
        pass
    while asked := hunt.next(at_once):
        for on in asked:
            run(on)
    return hunt, runs


@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_steady_fault_is_found_and_proved(size: int) -> None:
    for culprits in map(frozenset, combinations(LAYERS, size)):
        hunt, _ = hunted(culprits, 0.0, random.Random(0))
        assert hunt.minimal == culprits
        assert hunt.is_proved
        assert hunt.rate == 1.0


@pytest.mark.parametrize("size", [2, 3])
def test_a_fault_that_shows_in_seven_runs_of_ten_is_found_in_99_of_100_searches(size: int) -> None:
    draw = random.Random(size)
    right = 0
    for _ in range(200):
        culprits = frozenset(draw.sample(LAYERS, size))
        hunt, _ = hunted(culprits, 0.3, draw)
        right += hunt.minimal == culprits
    assert right >= 198


def test_a_pair_among_eight_takes_at_most_12_variants() -> None:
    variants = [len(set(hunted(frozenset(pair), 0.0, random.Random(0))[1])) for pair in combinations(LAYERS, 2)]
    assert max(variants) <= 12


def test_a_pair_that_is_known_to_be_steady_takes_at_most_12_runs_and_none_twice() -> None:
    for pair in map(frozenset, combinations(LAYERS, 2)):
        hunt, runs = Hunt(LAYERS, steady=0.97), []
        asked = [frozenset[str](), frozenset(LAYERS)]
        while asked:
            for on in asked:
                hunt.saw(on, "fails" if pair <= on else "passes")
                runs.append(on)
            asked = hunt.next()
        assert hunt.minimal == pair
        assert hunt.is_proved
        assert len(runs) <= 12
        assert len(set(runs)) == len(runs)


def test_what_a_finding_names_is_asked_first() -> None:
    named = {layer: 0.7 if layer in ("compile", "sharding") else 0.15 for layer in LAYERS}
    hunt = Hunt(LAYERS, weights=named, steady=0.97)
    hunt.saw((), "passes")
    hunt.saw(LAYERS, "fails")
    first = hunt.next()[0]
    assert first & {"compile", "sharding"}
    assert len(hunt.next(3)) == len(set(hunt.next(3))) == 3


def test_runs_side_by_side_find_the_same() -> None:
    for pair in map(frozenset, combinations(LAYERS, 2)):
        hunt, _ = hunted(pair, 0.0, random.Random(0), at_once=3)
        assert hunt.minimal == pair
        assert hunt.is_proved


def test_sets_that_cannot_run_are_not_asked_for() -> None:
    def trains(on: frozenset[str]) -> bool:
        return "adapter" in on or "precision" not in on

    hunt = Hunt(LAYERS, steady=0.97, allowed=trains)
    hunt.saw((), "passes")
    hunt.saw(LAYERS, "fails")
    while asked := hunt.next():
        on = asked[0]
        assert trains(on) or hunt.settled
        hunt.saw(on, "fails" if {"compile", "precision"} <= on else "passes")
    assert hunt.minimal == {"compile", "precision"}


def test_a_set_that_ends_otherwise_is_neither_counted_nor_run_again() -> None:
    hunt, seen = Hunt(LAYERS, steady=0.97), []
    hunt.saw((), "passes")
    hunt.saw(LAYERS, "fails")
    while asked := hunt.next():
        on = asked[0]
        assert on not in seen
        if "attention" in on and "launcher" not in on:
            hunt.saw(on, "unresolved")
            seen.append(on)
        else:
            hunt.saw(on, "fails" if {"compile"} <= on else "passes")
    assert hunt.minimal == {"compile"}


def test_a_fault_without_any_layer_is_no_layers_fault() -> None:
    hunt = Hunt(LAYERS)
    for _ in range(3):
        hunt.saw((), "fails")
        hunt.saw(LAYERS, "fails")
    assert hunt.minimal == frozenset()
