"""The search for the smallest set of layers with which a case fails: runs what the hunt asks for."""

from __future__ import annotations

import math
from collections.abc import Callable

from trueup.procedures.bisection.case import Case
from trueup.procedures.bisection.hunt import Hunt
from trueup.procedures.bisection.layers import can_run, weights
from trueup.procedures.bisection.oracle import STEADY
from trueup.procedures.bisection.signatures import ended
from trueup.procedures.bisection.suspects import SOMETIMES, Layers
from trueup.procedures.bisection.trials import Trials
from trueup.schema.bisection import Outcome
from trueup.schema.record import Record


class Search:
    """What the runs of sets of layers showed. The layers that `stays` names are on in all of them."""

    def __init__(self, case: Case, trials: Trials, at_once: int, say: Callable[[str], object]) -> None:
        self.case = case
        self.stays = dict(case.stays)
        self.control: Outcome | None = None
        self._trials = trials
        self._at_once = at_once
        self._say = say
        self._seen: list[tuple[Layers, Outcome]] = []
        self.hunt = self._new_hunt(weights(case.layers, case.job))

    def begin(self) -> Outcome:
        """The outcome of the control; with it the search can go, unless it fails."""
        self._tell(frozenset(self.case.layers), self.case.job)
        if self.given:
            self._try([self.given])
        else:
            self._tell(frozenset(), self.case.control)
        self.control = self._seen[-1][1]
        if self.control == "unresolved":
            self._keep_one()
        return self.control

    def go(self) -> None:
        """Run what the hunt asks for until it asks for nothing more."""
        while sets := [on | self.given for on in self.hunt.next(self._at_once)]:
            self._say(self._progress())
            self._try(sets)

    @property
    def given(self) -> Layers:
        """The layers that are on in all runs."""
        return frozenset(self.stays)

    @property
    def minimal(self) -> Layers:
        """The likeliest set; layers that cannot be switched are of it where the rule that fits names them."""
        found = self.case.finding
        return self.hunt.minimal | (self.given & frozenset(found.layers if found is not None else ()))

    @property
    def words(self) -> str:
        """What was seen of `minimal`."""
        names = " + ".join(self.named(self.minimal))
        if not names:
            return "the runs point to no layer"
        if not self.hunt.is_proved:
            return f"all runs point to {names}"
        if len(self.minimal) == 1:
            return f"it fails with {names} alone, and passes without it"
        return f"it fails with {names} and nothing else, and passes without any one of them"

    def named(self, on: Layers) -> tuple[str, ...]:
        """In the order in which stacks are put together."""
        return tuple(each for each in self.case.layers if each in on)

    def _progress(self) -> str:
        left = max(1, math.ceil(self.hunt.doubt)) + len(self.hunt.minimal)
        names = " + ".join(self.named(self.hunt.minimal)) or "no layer"
        minutes = left * self._trials.seconds / self._at_once / 60
        return f"{self.hunt.belief:.0%} on {names}; about {left} runs are left, {minutes:.1f} minutes"

    def _keep_one(self) -> None:
        """With all off the job ends otherwise: look for a layer that has to stay, best one with which it passes."""
        outcomes: dict[str, Outcome] = {}
        for layer in self.case.layers:
            if layer not in self.given:
                self._try([self.given | {layer}])
                outcomes[layer] = self._seen[-1][1]
                if outcomes[layer] == "passes":
                    break
        for wanted in ("passes", "fails"):
            layer = next((each for each, outcome in outcomes.items() if outcome == wanted), "")
            if layer:
                self.stays[layer] = f"without it the job ends otherwise: {ended(self.case.control)}"
                self.control = outcomes[layer]
                self.hunt = self._new_hunt({})
                for on, seen in self._seen:
                    self._learn(on, seen)
                return

    def _new_hunt(self, believed: dict[str, float]) -> Hunt:
        runs = can_run(self.case.layers, self.case.job)
        given = self.given
        return Hunt(
            tuple(each for each in self.case.layers if each not in given),
            weights=believed,
            steady=STEADY.get(self.case.oracle.signature.kind, SOMETIMES),
            allowed=lambda on: runs(on | given),
        )

    def _try(self, sets: list[Layers]) -> None:
        records = self._trials.run([self.case.attempt(on) for on in sets])
        for on, record in zip(sets, records, strict=True):
            self._tell(on, record)

    def _tell(self, on: Layers, record: Record) -> None:
        outcome = self._trials.note(self.case.attempt(on), record, "search", self.named(on))
        self._seen.append((on, outcome))
        self._learn(on, outcome)

    def _learn(self, on: Layers, outcome: Outcome) -> None:
        if on >= self.given:
            self.hunt.saw(on - self.given, outcome)
