"""Checks that stop when the time or the number of runs for them is spent, and never run a candidate twice."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from trueup.procedures.reproduction.candidate import Candidate, Checks, OutOfBudget
from trueup.schema.bisection import Outcome


class Budget:
    """What a search may use."""

    def __init__(self, seconds: float, runs: int = 200, clock: Callable[[], float] = time.monotonic) -> None:
        self._until = clock() + seconds
        self._left = runs
        self._clock = clock

    def spend(self) -> None:
        """One run. Raises OutOfBudget."""
        if self._left <= 0 or self._clock() >= self._until:
            raise OutOfBudget
        self._left -= 1

    def part(self, share: float) -> Budget:
        """A share of the seconds that are left."""
        now = self._clock()
        return Budget(share * max(self._until - now, 0.0), self._left, self._clock)


MISSED = 0.05
"""Chance of taking a fault that comes and goes for gone."""
REPEATS = 6
"""Runs of one candidate at most."""


def repeats(rate: float) -> int:
    """Runs that must pass in a row, for a fault that shows in a share `rate` of them."""
    return 1 if rate >= 1 else min(REPEATS, math.ceil(math.log(MISSED) / math.log(1 - max(rate, 0.1))))


class Checked:
    """`Checks` within a budget; outcomes are kept.

    A fault that shows in a share `rate` of the runs is gone only when as many runs in a row pass as make that sure.
    """

    def __init__(self, checks: Checks, budget: Budget, rate: float = 1.0) -> None:
        self.budget = budget
        self._rate = rate
        self._checks = checks
        self._known: dict[tuple[bool, Candidate], tuple[Outcome, str]] = {}

    def within(self, budget: Budget) -> Checked:
        """The same, with the same memory, within another budget."""
        other = Checked(self._checks, budget, self._rate)
        other._known = self._known
        return other

    def observed(self, candidate: Candidate) -> tuple[Outcome, str]:
        """Raises OutOfBudget."""
        return self._outcome(True, candidate, self._checks.observed)

    def plain(self, candidate: Candidate) -> tuple[Outcome, str]:
        """Raises OutOfBudget."""
        return self._outcome(False, candidate, self._checks.plain)

    def fails(self, candidate: Candidate) -> bool:
        """Whether it fails as the job did."""
        return self.observed(candidate)[0] == "fails"

    def passes(self, candidate: Candidate, layer: str) -> bool:
        """Whether it is well without the layer, by its own switch or by trueup's."""
        return self.observed(candidate.without(layer))[0] == "passes"

    def _outcome(
        self, observed: bool, candidate: Candidate, run: Callable[[Candidate], tuple[Outcome, str]]
    ) -> tuple[Outcome, str]:
        key = (observed, candidate)
        if key not in self._known:
            for _ in range(repeats(self._rate)):
                self.budget.spend()
                result = run(candidate)
                if result[0] != "passes":
                    break
            self._known[key] = result
        return self._known[key]
