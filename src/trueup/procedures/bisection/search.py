"""The search for the smallest set of layers with which a case fails, and its proof."""

from __future__ import annotations

import math
from collections.abc import Callable

from trueup.procedures.bisection.case import Case
from trueup.procedures.bisection.layers import can_run, weights
from trueup.procedures.bisection.signatures import STEADY, ended
from trueup.procedures.bisection.suspects import SOMETIMES, Layers, Suspects
from trueup.procedures.bisection.trials import Trials
from trueup.schema.bisection import Outcome
from trueup.schema.record import Record

CONFIDENT = 0.999
"""Belief in a set from which on it is run alone."""


class Search:
    """What the runs of sets of layers showed, and what that says. `given` layers are on in all of them."""

    def __init__(self, case: Case, trials: Trials, at_once: int, say: Callable[[str], object]) -> None:
        self.case = case
        self.stays = dict(case.stays)
        self.control: Outcome | None = None
        self._trials = trials
        self._at_once = at_once
        self._say = say
        self._outcomes: dict[Layers, list[Outcome]] = {}
        self._suspects = self._fresh(weights(case.layers, case.job))

    def begin(self) -> Outcome:
        """The outcome of the control; with it the search can go, unless it fails."""
        self._tell(frozenset(self.case.layers), self.case.job)
        if self.given:
            self._try([self.given])
        else:
            self._tell(frozenset(), self.case.control)
        self.control = self._outcomes[self.given][-1]
        if self.control == "unresolved":
            self._keep_one()
        return self.control

    def go(self) -> None:
        """Run what tells the most until one set is left, then what proves it, as far as anything tells."""
        runs = can_run(self.case.layers, self.case.job)
        while True:
            if self.settled:
                sets = self.unproved[: self._at_once]
            else:
                chosen = self._suspects.next(self._at_once, lambda on: self._is_open(on | self.given) and runs(on))
                sets = [on | self.given for on in chosen]
            if not sets:
                return
            self._say(self._progress())
            self._try(sets)

    # -- what is known -------------------------------------------------------------------------------------------------

    @property
    def given(self) -> Layers:
        """The layers that are on in all runs."""
        return frozenset(self.stays)

    @property
    def settled(self) -> bool:
        """Whether one set is left."""
        return self._suspects.best[1] >= CONFIDENT

    @property
    def belief(self) -> float:
        """In `minimal`."""
        return self._suspects.best[1]

    @property
    def minimal(self) -> Layers:
        """The likeliest set; layers that cannot be switched are of it where the rule that fits names them."""
        found = self.case.finding
        return self._suspects.best[0] | (self.given & frozenset(found.layers if found is not None else ()))

    @property
    def unproved(self) -> list[Layers]:
        """What is still to be run to see that the set fails alone, and passes without each of its layers."""
        best = self._suspects.best[0]
        alone = [] if self._failed(best | self.given) else [best | self.given]
        less = [(best - {each}) | self.given for each in best if not self._passed_without(best, each)]
        return [each for each in (*alone, *less) if self._is_open(each)]

    @property
    def is_proved(self) -> bool:
        """Whether the set was seen to fail alone, and to pass without each of its layers."""
        minimal = self.minimal
        alone = bool(minimal) and self._failed(minimal | self.given)
        return alone and all(self._passed_without(minimal, each) for each in minimal)

    @property
    def rate(self) -> float:
        """Share of the runs with the set on that failed."""
        seen = [each for on, outcomes in self._outcomes.items() if self.minimal <= on for each in outcomes]
        told = [each for each in seen if each != "unresolved"]
        return max(0.1, told.count("fails") / len(told)) if told else 1.0

    @property
    def words(self) -> str:
        """What was seen of `minimal`."""
        names = " + ".join(self.named(self.minimal))
        if not names:
            return "the runs point to no layer"
        if not self.is_proved:
            return f"all runs point to {names}"
        if len(self.minimal) == 1:
            return f"it fails with {names} alone, and passes without it"
        return f"it fails with {names} and nothing else, and passes without any one of them"

    def named(self, on: Layers) -> tuple[str, ...]:
        """In the order in which stacks are put together."""
        return tuple(each for each in self.case.layers if each in on)

    def _failed(self, on: Layers) -> bool:
        return "fails" in self._outcomes.get(on, ())

    def _passed_without(self, minimal: Layers, layer: str) -> bool:
        return any(
            minimal - {layer} <= on and layer not in on and outcomes[-1] == "passes"
            for on, outcomes in self._outcomes.items()
        )

    def _is_open(self, on: Layers) -> bool:
        """Whether another run can tell anything: none does of what ends otherwise."""
        return "unresolved" not in self._outcomes.get(on, ())

    def _progress(self) -> str:
        best, belief = self._suspects.best
        left = max(1, math.ceil(self._suspects.doubt)) + len(best)
        names = " + ".join(self.named(best)) or "no layer"
        minutes = left * self._trials.seconds / self._at_once / 60
        return f"{belief:.0%} on {names}; about {left} runs are left, {minutes:.1f} minutes"

    # -- runs ----------------------------------------------------------------------------------------------------------

    def _keep_one(self) -> None:
        """With all off the job ends otherwise: look for a layer that has to stay."""
        for layer in self.case.layers:
            if layer in self.given:
                continue
            self._try([self.given | {layer}])
            outcome = self._outcomes[self.given | {layer}][-1]
            if outcome != "unresolved":
                self.stays[layer] = f"without it the job ends otherwise: {ended(self.case.control)}"
                self.control = outcome
                self._suspects = self._fresh({})
                for on, outcomes in self._outcomes.items():
                    self._learn(on, outcomes[-1])
                return

    def _fresh(self, believed: dict[str, float]) -> Suspects:
        free = tuple(each for each in self.case.layers if each not in self.given)
        return Suspects(free, believed, STEADY.get(self.case.oracle.signature.kind, SOMETIMES))

    def _try(self, sets: list[Layers]) -> None:
        records = self._trials.run([self.case.attempt(on) for on in sets])
        for on, record in zip(sets, records, strict=True):
            self._tell(on, record)

    def _tell(self, on: Layers, record: Record) -> None:
        outcome = self._trials.note(self.case.attempt(on), record, "search", self.named(on))
        self._outcomes.setdefault(on, []).append(outcome)
        self._learn(on, outcome)

    def _learn(self, on: Layers, outcome: Outcome) -> None:
        if outcome != "unresolved" and on >= self.given:
            self._suspects.saw(on - self.given, outcome == "fails")
