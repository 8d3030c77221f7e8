"""Data: the batch with which it fails, or none in particular, and the shortest sequences with which it does."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from trueup.procedures.bisection.inside.asking import changed, forced, latest, outcome
from trueup.procedures.bisection.inside.halving import first
from trueup.procedures.bisection.signatures import failed_first
from trueup.procedures.bisection.trials import Trials
from trueup.schema.bisection import Attempt, Kind, Narrowed, Outcome
from trueup.schema.record import Record

IN_A_STEP: tuple[Kind, ...] = ("exception", "not finite", "memory")
"""Kinds of faults that come in one step."""
BATCHES = 4
"""Runs that the question for the batch may cost, beside the halving of several batches of a step."""
SHORTEST = 8
"""Tokens that are tried first: what fails with them does not need long sequences."""
LENGTHS = 12
"""Runs that the question for the length may cost."""


class Batches(msgspec.Struct, frozen=True):
    """The batches of the step in which it failed, counted from 1."""

    first: int
    last: int

    @property
    def name(self) -> str:
        return f"batch {self.first}" if self.first == self.last else f"batches {self.first} to {self.last}"

    @property
    def part(self) -> str:
        return f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"


def narrow(trials: Trials, base: Attempt, record: Record) -> Iterator[Narrowed]:
    """The batch, for faults that come in a step; then the length. Nothing of jobs without a DataLoader."""
    assert trials.oracle is not None, "nothing is looked for yet"
    seen = latest(trials, base, record)
    guilty = failing_batches(seen, trials.oracle.signature.kind)
    if guilty is None:
        return
    asked = Asked(trials, base)
    found = asked.batch(guilty)
    if found is None:
        return
    yield found
    length = asked.length() if asked.of_data else None
    if length is not None:
        yield length


def failing_batches(record: Record, kind: Kind) -> Batches | None:
    """Those of the step that failed; None where that is not known, or is no step."""
    if kind not in IN_A_STEP:
        return None
    steps = record.steps
    if kind == "not finite":
        if not steps.not_finite:
            return None
        step, stride = steps.not_finite[0], max(steps.stride, 1)
    else:
        rank = failed_first(record)
        if rank is None:
            return None
        step, stride = rank.steps + 1, 1
    each = record.actual.training.accumulation or 1
    return Batches(max(step - stride, 0) * each + 1, step * each)


class Asked:
    """The questions about the data of one job."""

    def __init__(self, trials: Trials, base: Attempt) -> None:
        self._trials = trials
        self._base = base
        self.of_data = True
        """Whether it may depend on the data, as far as is known."""

    def batch(self, guilty: Batches) -> Narrowed | None:
        """Whether it is this batch: alone, after those before it, or any at that step."""
        if guilty.first == 1:
            return self._first(guilty)
        alone = self._only(guilty)
        if outcome(self._trials, alone, "data") == "fails":
            return self._by_itself(guilty)
        if not changed(self._trials, alone, "data"):
            return None
        without = forced(self._base, "data", f"without:{guilty.part}")
        outcome_without = outcome(self._trials, without, "data")
        shape = self._shape(alone, guilty)
        if outcome_without == "passes":
            answer = f"{guilty.name}{shape}, after those before"
            return _told(answer, "passes without it, and passes when it is given alone from the first step on")
        if outcome_without == "fails":
            told = f"passes with {guilty.name} alone from the first step on, and fails without"
            self.of_data = False
            return _told(_whatever(guilty), told)
        return None

    def _first(self, guilty: Batches) -> Narrowed | None:
        without = forced(self._base, "data", f"without:{guilty.part}")
        found = outcome(self._trials, without, "data")
        if not changed(self._trials, without, "data"):
            return None
        if found == "passes":
            return _told(f"{guilty.name}{self._shape(without, guilty)}", "fails with the first, passes without")
        if found == "fails":
            return _told("any", "fails in the first step, and without its data in the next one")
        return None

    def _by_itself(self, guilty: Batches) -> Narrowed:
        other = self._only(Batches(1, 1))
        if outcome(self._trials, other, "data") == "fails":
            self.of_data = False
            told = f"fails with {guilty.name} again and again, and with batch 1 again and again"
            return _told(_whatever(guilty), told)
        guilty = self._halved(guilty)
        told = "fails when it is given alone from the first step on; passes with batch 1 in the place of all"
        return _told(f"{guilty.name}{self._shape(self._only(guilty), guilty)}", told)

    def _halved(self, guilty: Batches) -> Batches:
        """One of several batches, where one is enough."""
        while guilty.first < guilty.last:
            middle = (guilty.first + guilty.last) // 2
            halves = (Batches(guilty.first, middle), Batches(middle + 1, guilty.last))
            failing = next(
                (each for each in halves if outcome(self._trials, self._only(each), "data") == "fails"), None
            )
            if failing is None:
                break
            guilty = failing
        return guilty

    def _only(self, batches: Batches) -> Attempt:
        return forced(self._base, "data", f"only:{batches.part}")

    def _shape(self, attempt: Attempt, guilty: Batches) -> str:
        """` of 8x48, those before of 8x32`, as the run told them."""
        shapes = self._trials.records(attempt)[-1].parts.get("data", ()) if self._trials.records(attempt) else ()
        own = shapes[guilty.first - 1 : guilty.last]
        before = list(dict.fromkeys(shapes[: guilty.first - 1]))
        if not own:
            return ""
        others = f", those before of {', '.join(before[:3])}{', ...' if len(before) > 3 else ''}" if before else ""
        return f" of {', '.join(dict.fromkeys(own))}{others}"

    # -- length --------------------------------------------------------------------------------------------------------

    def length(self) -> Narrowed | None:
        """The fewest tokens of a row with which it fails, when all batches are cut to them."""
        short = self._cut(SHORTEST)
        found = outcome(self._trials, short, "data")
        if found == "fails":
            return _length(f"any: {SHORTEST} tokens are enough", f"fails with all batches cut to {SHORTEST} tokens")
        if found != "passes":
            return None
        low = SHORTEST
        high = longest = _longest(self._trials.records(short)[-1])
        if high <= low + 1:
            return None
        tries = 1

        def probe(length: int) -> Outcome:
            nonlocal tries
            tries += 1
            return outcome(self._trials, self._cut(length), "data") if tries <= LENGTHS else "unresolved"

        low, high = first(low, high, probe)
        whole = high == longest
        cut = f"as they are, of up to {high}" if whole else f"with all batches cut to {high} tokens"
        told = f"fails {cut}, passes when they are cut to {low}"
        return _length(f"{high} tokens" if high - low == 1 else f"between {low + 1} and {high} tokens", told)

    def _cut(self, length: int) -> Attempt:
        return forced(self._base, "data", f"length:{length}")


def _whatever(guilty: Batches) -> str:
    return f"no one batch: it fails at {guilty.name}, whatever that is"


def _longest(record: Record) -> int:
    shapes = [shape.split("x") for shape in record.parts.get("data", ())]
    return max((int(shape[1]) for shape in shapes if len(shape) > 1 and shape[1].isdigit()), default=0)


def _told(answer: str, evidence: str) -> Narrowed:
    return Narrowed(layer="data", what="batch", answer=answer, evidence=evidence)


def _length(answer: str, evidence: str) -> Narrowed:
    return Narrowed(layer="data", what="length", answer=answer, evidence=evidence)
