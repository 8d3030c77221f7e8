"""Does the job with its remedies compute what it computed; remedies with which it does not are dropped."""

from __future__ import annotations

from collections.abc import Sequence

from trueup.procedures import numerics
from trueup.procedures.search import Search
from trueup.remedies.choice import Choice
from trueup.remedies.registry import application
from trueup.schema.fixing import Numerics
from trueup.schema.record import Record
from trueup.schema.variant import Variant


class Sameness:
    """Compares runs of a search with the job as it was, and measures the noise of the job when that is needed."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self.control: Record | None = None
        """A second run of the job as it was."""

    def proved(self) -> Numerics:
        """Drop remedies until the job computes what it computed; the verdict on those that are kept."""
        while self._search.kept:
            verdict = self.of(self._search.kept)
            if verdict.verdict != "different":
                return verdict
            self._search.drop(self._culprit(), f"the job computes something else with it: {verdict.why}", True)
        return Numerics(verdict="not compared", why="nothing was applied")

    def of(self, choices: Sequence[Choice]) -> Numerics:
        """The verdict on `choices`; those that correct results are what the others are compared with."""
        search = self._search
        corrected = [choice for choice in choices if corrects(choice)]
        if not corrected:
            return self._compared(search.before, search.record(choices))
        names = ", ".join(f"{choice.remedy} ({choice.rule})" for choice in corrected)
        why = f"the results were wrong and change by design: {names}"
        others = {choice.remedy for choice in choices} - {choice.remedy for choice in corrected}
        if others:
            verdict = numerics.compared(search.record(corrected), search.record(choices))
            if verdict.verdict == "different":
                return verdict
            why = f"{why}; against these alone, {', '.join(sorted(others))}: {verdict.why}"
        return Numerics(verdict="corrected", why=why)

    def _compared(self, before: Record, after: Record) -> Numerics:
        if self.control is None and numerics.difference(before, after)[1] is not None:
            if numerics.is_same(before, after):
                return numerics.compared(before, after)
            self.control = self._search.again(Variant())
        return numerics.compared(before, after, self.control)

    def _culprit(self) -> Choice:
        """The remedy without which the others leave the results as they are, else the last."""
        kept = self._search.kept
        correcting = {choice.remedy for choice in kept if corrects(choice)}
        harmless = [choice for choice in kept if choice.remedy not in correcting]
        for choice in harmless[:-1]:
            rest = [each for each in kept if each.remedy != choice.remedy]
            if self.of(rest).verdict != "different":
                return choice
        return harmless[-1]


def corrects(choice: Choice) -> bool:
    return choice.rule in application(choice.remedy).corrects
