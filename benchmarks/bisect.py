"""Runs that a search for the guilty layers takes: trueup's hunt, and delta debugging (picire) on the same faults.

A pair or a triple of eight layers is planted. A steady fault shows whenever they are on, the others in seven runs of
ten. Delta debugging is also given each outcome as the worst of three runs, which is what it takes to be right as often.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterator

from trueup.procedures.bisection.hunt import Hunt
from trueup.procedures.bisection.oracle import STEADY
from trueup.procedures.bisection.suspects import SOMETIMES

LAYERS = ("environment", "launcher", "attention", "adapter", "precision", "checkpointing", "compile", "sharding")
SEARCHES = 200
MISSED = 0.3
"""Share of runs in which a fault that comes and goes does not show."""

Fails = Callable[[frozenset[str]], bool]
Answer = tuple[frozenset[str], int, int]
"""The set that was found, the runs, and how many of them were different."""


def measure(quick: bool = False) -> Iterator[str]:
    searches = SEARCHES // 10 if quick else SEARCHES
    ways: dict[str, Callable[[Fails], Answer]] = {
        "trueup": hunted,
        "trueup for an exception": lambda fails: hunted(fails, STEADY["exception"]),
    }
    try:
        import picire  # noqa: F401 - asked for here, used below
    except ImportError:
        yield "picire is not here; `make bench` installs it"
    else:
        ways |= {"picire": lambda fails: debugged(fails, 1), "picire, worst of 3": lambda fails: debugged(fails, 3)}
    for size in (2, 3):
        for missed in (0.0, MISSED):
            for name, search in ways.items():
                yield told(
                    f"{size} of {len(LAYERS)} layers, shows in {1 - missed:.0%} of runs, {name}",
                    search,
                    size,
                    missed,
                    searches,
                )


def told(title: str, search: Callable[[Fails], Answer], size: int, missed: float, searches: int) -> str:
    draw = random.Random(size)
    right, runs, different = 0, [], []
    for _ in range(searches):
        culprits = frozenset(draw.sample(LAYERS, size))
        found, made, distinct = search(planted(culprits, missed, draw))
        right += found == culprits
        runs.append(made)
        different.append(distinct)
    return (
        f"{title}: right {right / searches:.1%}, runs {statistics.mean(runs):.1f} (most {max(runs)}), "
        f"variants {statistics.mean(different):.1f} (most {max(different)})"
    )


def planted(culprits: frozenset[str], missed: float, draw: random.Random) -> Fails:
    """Whether a run with some layers on fails."""
    return lambda on: culprits <= on and draw.random() >= missed


def hunted(fails: Fails, steady: float = SOMETIMES) -> Answer:
    """As `trueup bisect` searches: the control, the whole until it fails, then what the hunt asks for."""
    hunt, asked = Hunt(LAYERS, steady=steady), []

    def run(on: frozenset[str]) -> bool:
        asked.append(on)
        shown = fails(on)
        hunt.saw(on, "fails" if shown else "passes")
        return shown

    run(frozenset())
    while not run(frozenset(LAYERS)):
        pass
    while sets := hunt.next():
        run(sets[0])
    return hunt.minimal, len(asked), len(set(asked))


def debugged(fails: Fails, repeats: int) -> Answer:
    """As delta debugging minimises the list of all layers; the control and the whole are counted, too."""
    from picire import DD, Outcome

    asked: list[frozenset[str]] = [frozenset(), frozenset(LAYERS)]

    def test(config: list[str], config_id: object) -> Outcome:
        if len(config) == len(LAYERS):
            return Outcome.FAIL  # seen by who asks; delta debugging takes nothing else for an answer
        shown = False
        for _ in range(repeats):
            asked.append(frozenset(config))
            shown = shown or fails(frozenset(config))
        return Outcome.FAIL if shown else Outcome.PASS

    try:
        found = frozenset(DD(test)(list(LAYERS)))
    except AssertionError:  # what it had reduced to passes now: no answer
        found = frozenset()
    return found, len(asked), len(set(asked))
