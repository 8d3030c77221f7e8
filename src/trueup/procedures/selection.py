"""Of several remedies that cure a finding, the one that measures best."""

from __future__ import annotations

from typing import Literal

from trueup.procedures.sameness import Sameness, corrects
from trueup.procedures.search import Search, is_unchanged, is_worse
from trueup.procedures.speed import speed
from trueup.remedies.choice import Choice, alternatives
from trueup.schema.fixing import Dropped
from trueup.schema.record import Record

Goal = Literal["correct", "speed", "memory"]
"""`correct`: what was asked for runs, whatever it costs; the two others leave out a remedy that costs what is the goal.
Of several remedies of one finding, the fastest is kept, or for `memory` the one with the lowest peak."""

LEAST = 0.03
"""Share by which one run has to be better than another before it counts."""


def select(search: Search, sameness: Sameness, goal: Goal) -> None:
    """Replace what is kept by alternatives that measure better, then drop what works against `goal`."""
    for choice in search.kept:
        for other in alternatives(search.seen[choice.rule], choice, search.without(choice)):
            if other in search.tried:
                continue
            search.tried.append(other)
            current = next((each for each in search.kept if each.rule == choice.rule), None)
            if current is not None:
                _keep_better(search, sameness, goal, current, other)
    if goal != "correct":
        _drop_costly(search, goal)


def _keep_better(search: Search, sameness: Sameness, goal: Goal, current: Choice, other: Choice) -> None:
    kept = search.kept
    changed = (*search.without(current), other)
    record = search.record(changed)
    uncured = is_worse(search.record(kept), record) or search.left((*kept, other), record)
    if uncured or is_unchanged(record, other.remedy):
        return
    ours, theirs = (any(each.rule == other.rule for each in run.findings) for run in (search.record(kept), record))
    if ours != theirs:
        better, measured = ours, f"the finding is {'gone' if ours else 'left as a note'}"
    else:
        better, measured = _compare(goal, search.record(kept), record)
    if better and sameness.of(changed).verdict == "different":  # asked last: it may take another run
        return
    if better:
        search.kept = changed
    left_out, by = (current, other) if better else (other, current)
    against = f"; with {other.remedy} instead of {current.remedy} {measured}" if measured else ""
    why = f"{by.remedy} cures it, too{against}"
    search.dropped.append(Dropped(remedy=left_out.remedy, rule=left_out.rule, why=why))


def _drop_costly(search: Search, goal: Goal) -> None:
    """Results come first: a remedy that corrects them, or with which the job no longer fails, stays at any cost."""
    for choice in search.kept:
        if corrects(choice) or search.seen[choice.rule].severity == "error":
            continue
        rest = search.without(choice)
        better, measured = _compare(goal, search.record(search.kept), search.record(rest))
        if better:
            search.drop(choice, f"without it {measured}")


def _compare(goal: Goal, one: Record, other: Record) -> tuple[bool, str]:
    """Whether `other` is better than `one`, and the difference in words."""
    if goal == "memory":
        peaks = one.actual.memory.peak_bytes, other.actual.memory.peak_bytes
        if not peaks[0] or not peaks[1]:
            return False, ""
        share = peaks[1] / peaks[0]
        return share < 1 - LEAST, f"the peak of memory is {share:.2f} times as large"
    measured = speed((one,), (other,))
    if measured.ratio is None or measured.low is None or not measured.ratio:
        return False, ""
    return measured.low > 1 + LEAST, f"a step takes {1 / measured.ratio:.2f} times as long"
