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

RATES = (1.0, 0.85, 0.7, 0.5, 0.3, 0.15)
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
        involved = [(weights or {}).get(layer, INVOLVED) for layer in self.layers]
        priors = [
            math.prod(p if mask >> bit & 1 else 1 - p for bit, p in enumerate(involved))
            for mask in range(1 << len(self.layers))
        ]
        sometimes = (1 - steady) / (len(RATES) - 1)
        self._beliefs = [[prior * (steady if rate == 1 else sometimes) for prior in priors] for rate in RATES]
        """Of each share in RATES: of each set of layers, by its bits, the belief in it and the share."""

    def saw(self, on: Iterable[str], fails: bool) -> None:
        """A run with these layers on has failed in the way that is looked for, or has passed."""
        off = ~self._mask(on)
        stray = STRAY if fails else 1 - STRAY
        for rate, beliefs in zip(RATES, self._beliefs, strict=True):
            chance = rate if fails else 1 - rate
            beliefs[:] = [belief * (stray if mask & off else chance) for mask, belief in enumerate(beliefs)]
        total = sum(map(sum, self._beliefs))
        self._beliefs = [[belief / total for belief in beliefs] for beliefs in self._beliefs]

    @property
    def best(self) -> tuple[Layers, float]:
        """The likeliest set and the belief in it."""
        sets = self._sets()
        mask = max(range(len(sets)), key=lambda each: (sets[each], -each.bit_count()))
        return self._layers(mask), sets[mask]

    @property
    def doubt(self) -> float:
        """Bits that are missing to know the set."""
        return -sum(belief * math.log2(belief) for belief in self._sets() if belief > 0)

    def chance(self, on: Iterable[str]) -> float:
        """That a run with these layers on fails."""
        off = ~self._mask(on)
        return sum(chance for mask, chance in enumerate(self._failing()) if not mask & off)

    def next(self, count: int = 1, allowed: Callable[[Layers], bool] = lambda on: True) -> list[Layers]:
        """At most `count` sets of layers whose runs, made at once, tell the most; none when no allowed one tells
        anything. Each after the first is chosen as if those before it had ended as is most likely."""
        kept = self._beliefs
        chosen: list[Layers] = []
        while len(chosen) < count:
            best = self._most_telling(lambda on: allowed(on) and on not in chosen)
            if best is None:
                break
            chosen.append(best)
            self._beliefs = [list(beliefs) for beliefs in self._beliefs]
            self.saw(best, self.chance(best) >= 0.5)
        self._beliefs = kept
        return chosen

    def _most_telling(self, allowed: Callable[[Layers], bool]) -> Layers | None:
        """What tells the most of the set, whatever the share; of two that tell as much, the one with more layers on."""
        sets, failing = self._sets(), self._failing()
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
        """The belief in each set."""
        return [sum(beliefs) for beliefs in zip(*self._beliefs, strict=True)]

    def _failing(self) -> list[float]:
        """Of each set: the belief in it, and that a run with it on fails."""
        return [sum(map(float.__mul__, RATES, beliefs)) for beliefs in zip(*self._beliefs, strict=True)]

    def _mask(self, layers: Iterable[str]) -> int:
        return sum(self._bits[layer] for layer in layers)

    def _layers(self, mask: int) -> Layers:
        return frozenset(layer for layer, bit in self._bits.items() if mask & bit)


def _entropy(chance: float) -> float:
    """Bits of one answer that is yes with this chance."""
    return -sum(p * math.log2(p) for p in (chance, 1 - chance) if p > 0)
