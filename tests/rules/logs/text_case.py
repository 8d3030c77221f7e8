"""One case of a rule that judges logs: a text, and what must be said about it."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent


@dataclass(frozen=True)
class LogCase:
    """`first` is the rule that must be named first; None where nothing may be said above "possible"."""

    rule: str
    name: str
    text: str
    first: str | None
    confidence: str | None = None
    """Of the first finding, where the case is about it."""

    def __str__(self) -> str:
        return f"{self.rule}: {self.name}"


def positive(rule: str, name: str, text: str, confidence: str | None = None) -> LogCase:
    """The rule is named first."""
    return LogCase(rule, name, _plain(text), rule, confidence)


def negative(rule: str, name: str, text: str, instead: str | None = None) -> LogCase:
    """The text only looks like the rule's; `instead` is what it is."""
    return LogCase(rule, name, _plain(text), instead)


def _plain(text: str) -> str:
    return dedent(text).strip("\n") + "\n"
