"""One case of a rule: what differs from the healthy record, and which findings must stand then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """`fires` is what the judgement must say in this order, with severity; empty for a negative case."""

    rule: str
    name: str
    change: Mapping[str, Any]
    fires: tuple[str, ...] = ()
    confidence: str = "established"

    def __str__(self) -> str:
        return f"{self.rule}: {self.name}"


def positive(rule: str, name: str, change: Mapping[str, Any], *, severity: str = "warning", **rest: Any) -> Case:
    """The rule's finding stands, first and (unless `also` names more) alone."""
    also = rest.pop("also", ())
    return Case(rule, name, change, (f"{severity} {rule}", *also), **rest)


def negative(rule: str, name: str, change: Mapping[str, Any], *, instead: tuple[str, ...] = ()) -> Case:
    """The rule is silent; `instead` names what the record means, nothing by default."""
    return Case(rule, name, change, instead)
