"""Reading values out of events, which another version of trueup may have written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def items(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def names(value: Any) -> tuple[str, ...]:
    """A list of texts."""
    return tuple(str(item) for item in items(value))


def number(value: Any) -> float | None:
    """The value if it is a number."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def whole(value: Any) -> int | None:
    """The value if it is a whole number."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def truth(value: Any) -> bool | None:
    """The value if it is True or False."""
    return value if isinstance(value, bool) else None


def text(value: Any) -> str | None:
    """The value as text, None if there is none."""
    return None if value is None else str(value)


def added(counts: Iterable[Any]) -> dict[str, int]:
    """{name: calls} of several samples, added up."""
    total: dict[str, int] = {}
    for each in counts:
        for name, calls in mapping(each).items():
            total[name] = total.get(name, 0) + (whole(calls) or 0)
    return total


def shares(amounts: Mapping[str, Any]) -> dict[str, float]:
    """{name: amount} as {name: share of the whole}, the largest first; empty when there is nothing."""
    known = {name: amount for name, value in amounts.items() if (amount := number(value)) is not None and amount > 0}
    total = sum(known.values())
    return {name: known[name] / total for name in sorted(known, key=lambda name: (-known[name], name))}


def any_true(answers: Iterable[Any]) -> bool | None:
    """True if one answer is, False if one answer is and none is True, None when nobody answered."""
    known = [answer for answer in answers if isinstance(answer, bool)]
    return any(known) if known else None
