"""The hunt for the smallest set of layers with which a fault shows: what to run next, and what the runs say. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from trueup.procedures.bisection.suspects import SOMETIMES, Layers, Suspects
from trueup.schema.bisection import Outcome

CONFIDENT = 0.999
"""Belief in a set from which on it is run alone."""
CONFIDENT_OF_STEADY = 0.99
"""The same for a fault of a kind that shows in every run, as long as it does."""
STEADY_KIND = 0.9
"""Belief, before any run, that a fault shows in every run, from which on it is of such a kind."""


class Hunt:
    """Which of `layers` must be on together; a run that is not `allowed` is not asked for."""

    def __init__(
        self,
        layers: Sequence[str],
        *,
        weights: Mapping[str, float] | None = None,
        steady: float = SOMETIMES,
        allowed: Callable[[Layers], bool] = lambda on: True,
    ) -> None:
        self._suspects = Suspects(layers, weights, steady)
        self._is_steady = steady >= STEADY_KIND
        self._allowed = allowed
        self._outcomes: dict[Layers, list[Outcome]] = {}

    def saw(self, on: Iterable[str], outcome: Outcome) -> None:
        """How a run with exactly these layers on has ended."""
        layers = frozenset(on)
        self._outcomes.setdefault(layers, []).append(outcome)
        if outcome != "unresolved":
            self._is_steady = self._is_steady and not self._contradicts(layers, outcome)
            self._suspects.saw(layers, outcome == "fails")

    def next(self, count: int = 1) -> list[Layers]:
        """At most `count` sets to run side by side; none when nothing is left to ask, or nothing would tell more."""
        if self.settled:
            return self._unproved()[:count]
        return self._suspects.next(count, lambda on: self._is_open(on) and self._allowed(on))

    @property
    def minimal(self) -> Layers:
        """The likeliest set."""
        return self._suspects.best[0]

    @property
    def belief(self) -> float:
        """In `minimal`."""
        return self._suspects.best[1]

    @property
    def settled(self) -> bool:
        """Whether one set is left."""
        return self.belief >= (CONFIDENT_OF_STEADY if self._is_steady else CONFIDENT)

    @property
    def doubt(self) -> float:
        """Bits that are missing to know the set."""
        return self._suspects.doubt

    @property
    def is_proved(self) -> bool:
        """Whether the set was seen to fail alone, and to pass without each of its layers."""
        minimal = self.minimal
        return "fails" in self._outcomes.get(minimal, ()) and all(self._passed_without(each) for each in minimal)

    @property
    def rate(self) -> float:
        """Share of the runs with the set on that failed; at least a tenth."""
        seen = [each for on, outcomes in self._outcomes.items() if self.minimal <= on for each in outcomes]
        told = [each for each in seen if each != "unresolved"]
        return max(0.1, told.count("fails") / len(told)) if told else 1.0

    def _unproved(self) -> list[Layers]:
        minimal = self.minimal
        alone = [] if "fails" in self._outcomes.get(minimal, ()) else [minimal]
        less = [minimal - {each} for each in minimal if not self._passed_without(each)]
        return [each for each in (*alone, *less) if self._is_open(each)]

    def _contradicts(self, on: Layers, outcome: Outcome) -> bool:
        """Whether a run with more layers on passed, and one with fewer failed: the fault comes and goes."""
        if outcome == "fails":
            return any(on <= more and "passes" in outcomes for more, outcomes in self._outcomes.items())
        return any(less <= on and "fails" in outcomes for less, outcomes in self._outcomes.items())

    def _passed_without(self, layer: str) -> bool:
        """In a run with at least the rest of the set on: the last one, since a fault may come and go."""
        rest = self.minimal - {layer}
        return any(
            rest <= on and layer not in on and outcomes[-1] == "passes" for on, outcomes in self._outcomes.items()
        )

    def _is_open(self, on: Layers) -> bool:
        """Whether another run can tell anything: none does of what ends otherwise."""
        return "unresolved" not in self._outcomes.get(on, ())
