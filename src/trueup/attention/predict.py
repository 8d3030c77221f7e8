"""Which kernel a call takes, told before it runs."""

from __future__ import annotations

from dataclasses import dataclass

from trueup.attention.call import Call
from trueup.attention.constraints import Obstacle, obstacles
from trueup.attention.entries import ENTRIES, Entry
from trueup.attention.knowledge import KERNELS


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """What happens when the call is made."""

    kernel: str | None
    """Name of the kernel that is taken; None where none is."""
    given: Call
    """The call as the kernel sees it: a library in between may have changed masks, heads or sizes."""
    order: tuple[str, ...]
    """Kernels behind the entry, in the order in which they are asked."""
    why: str
    failures: tuple[Obstacle, ...] = ()
    """Why it raises an error; empty for a call that succeeds."""
    error: str = ""
    """The error in words; empty for a call that succeeds."""

    @property
    def succeeds(self) -> bool:
        return not self.error


def predict(call: Call) -> Prediction:
    """What the call's entry makes of it. Raises KeyError for an entry that is not known."""
    entry = ENTRIES[call.entry]
    given = entry.given(call)
    order = entry.order(given)
    refused = tuple(obstacles(entry.constraints, given))
    if refused:
        return Prediction(
            kernel=None,
            given=given,
            order=order,
            why=entry.title,
            failures=refused,
            error=_in_words(entry.title, refused),
        )
    if entry.empty(given):
        return Prediction(kernel=None, given=given, order=order, why="an empty input is answered without a kernel")
    taken = next((name for name in order if not KERNELS[name].is_passed_over(given)), None)
    if taken is None:
        return _nothing_left(entry, given, order)
    failures = tuple(each for each in KERNELS[taken].obstacles(given) if each.constraint.raises)
    why = entry.why(given)
    passed = order[: order.index(taken)]
    if passed:
        why += f"; {_named(passed)} declined"
    error = _in_words(taken, failures) if failures else ""
    return Prediction(kernel=taken, given=given, order=order, why=why, failures=failures, error=error)


def _nothing_left(entry: Entry, given: Call, order: tuple[str, ...]) -> Prediction:
    failures = tuple(KERNELS[order[0]].obstacles(given))
    error = f"no kernel behind {entry.title} takes the call" if len(order) > 1 else _in_words(order[0], failures)
    return Prediction(kernel=None, given=given, order=order, why=entry.why(given), failures=failures, error=error)


def _in_words(name: str, failures: tuple[Obstacle, ...]) -> str:
    first = failures[0]
    fails = "gives wrong results without an error" if first.constraint.silent else "raises an error"
    return f"{name} {fails}: {first.constraint.about}: {first.given}, needs {first.constraint.needs}"


def _named(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
