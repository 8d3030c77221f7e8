"""Which set of layers must be on for a fault to show: a belief over all sets, and the run that would tell the most.

A fault shows, in some share of the runs, when at least the layers of one set are on. Each answer of a run moves the
belief in every set and share by Bayes' rule, so that a fault that shows only now and then needs more runs, not other
code. This is adaptive group testing with noise: Hwang, "A method for detecting all defective members in a population
by group testing" (1972), for the search; Ben-Or and Hassidim, "The Bayesian learner is optimal for noisy binary search"
(2008), for the noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

Layers = frozenset[str]

RATES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
"""Shares of the runs in which a fault shows."""
SOMETIMES = 0.75
"""Belief, before any run, that it shows in every run, where nothing is known of it."""
INVOLVED = 0.25
"""Belief, before any run, that a layer is of the set, where nothing is known of it."""
STRAY = 1e-6
"""Chance that a run fails in this way without the set."""


class Suspects:
    """The belief over sets of `layers`. `weights`: layer → how likely it is of the set, between 0 and 1."""

    def __init__(
        self, layers: Sequence[str], weights: Mapping[str, float] | None = None, steady: float = SOMETIMES
    ) -> None:
        self.layers = tuple(layers)
        self._bits = {layer: 1 << index for index, layer in enumerate(self.layers)}
        self._belief: dict[tuple[int, float], float] = {}
        involved = [(weights or {}).get(layer, INVOLVED) for layer in self.layers]
        for mask in range(1 << len(self.layers)):
            prior = math.prod(p if mask >> i & 1 else 1 - p for i, p in enumerate(involved))
            for rate in RATES:
                share = steady if rate == 1 else (1 - steady) / (len(RATES) - 1)
                self._belief[mask, rate] = prior * share
        self._normalise()

    def saw(self, on: Iterable[str], fails: bool) -> None:
        """A run with these layers on has failed in the way that is looked for, or has passed."""
        mask = self._mask(on)
        for (culprits, rate), belief in self._belief.items():
            chance = rate if culprits & ~mask == 0 else STRAY
            self._belief[culprits, rate] = belief * (chance if fails else 1 - chance)
        self._normalise()

    @property
    def best(self) -> tuple[Layers, float]:
        """The likeliest set and the belief in it."""
        sets = self._sets()
        mask = max(range(len(sets)), key=lambda each: (sets[each], -each.bit_count()))
        return self._layers(mask), sets[mask]

    @property
    def rate(self) -> float:
        """The expected share of runs in which the fault shows where the set is on."""
        return sum(rate * belief for (_, rate), belief in self._belief.items())

    @property
    def doubt(self) -> float:
        """Bits that are missing to know the set."""
        return -sum(belief * math.log2(belief) for belief in self._sets() if belief > 0)

    def chance(self, on: Iterable[str]) -> float:
        """That a run with these layers on fails."""
        mask = self._mask(on)
        return sum(rate * belief for (each, rate), belief in self._belief.items() if each & ~mask == 0)

    def next(self, count: int = 1, allowed: Callable[[Layers], bool] = lambda on: True) -> list[Layers]:
        """At most `count` sets of layers whose runs, made at once, tell the most; none when no allowed one tells
        anything. Each after the first is chosen as if those before it had ended as is most likely."""
        kept = dict(self._belief)
        chosen: list[Layers] = []
        while len(chosen) < count:
            best = self._most_telling(lambda on: allowed(on) and on not in chosen)
            if best is None:
                break
            chosen.append(best)
            self.saw(best, self.chance(best) >= 0.5)
        self._belief = kept
        return chosen

    def _most_telling(self, allowed: Callable[[Layers], bool]) -> Layers | None:
        """What tells the most of the set, whatever the share; of two that tell as much, the one with more layers on."""
        sets, failing = self._sets(), [0.0] * (1 << len(self.layers))
        for (mask, rate), belief in self._belief.items():
            failing[mask] += belief * rate
        own = [
            belief * _entropy(min(chance / belief, 1.0)) if belief > 0 else 0.0
            for belief, chance in zip(sets, failing, strict=True)
        ]
        gains = [
            (_entropy(min(chance, 1.0)) - noise, mask.bit_count(), mask)
            for mask, (chance, noise) in enumerate(zip(self._within(failing), self._within(own), strict=True))
        ]
        for gain, _, mask in sorted(gains, reverse=True):
            if gain <= 1e-9:
                return None
            if allowed(self._layers(mask)):
                return self._layers(mask)
        return None

    def _within(self, values: Sequence[float]) -> list[float]:
        """For each set of layers on: the sum of the values of all sets within it."""
        sums = list(values)
        for bit in self._bits.values():
            for mask in range(len(sums)):
                if mask & bit:
                    sums[mask] += sums[mask ^ bit]
        return sums

    def _sets(self) -> list[float]:
        sets = [0.0] * (1 << len(self.layers))
        for (mask, _), belief in self._belief.items():
            sets[mask] += belief
        return sets

    def _mask(self, layers: Iterable[str]) -> int:
        return sum(self._bits[layer] for layer in layers)

    def _layers(self, mask: int) -> Layers:
        return frozenset(layer for layer, bit in self._bits.items() if mask & bit)

    def _normalise(self) -> None:
        total = sum(self._belief.values())
        for key in self._belief:
            self._belief[key] /= total


def _entropy(chance: float) -> float:
    """Bits of one answer that is yes with this chance."""
    return -sum(p * math.log2(p) for p in (chance, 1 - chance) if p > 0)
