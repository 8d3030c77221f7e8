"""All texts of all rules, found in a text in time that does not grow with their number.

A text can only stand where its anchor, its longest whole word, stands; so the words of a log line choose the few texts
that are worth a search.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from trueup.rules.definition import LogText, Rule
from trueup.rules.log_text import WORD, Pattern, pattern


@dataclass(frozen=True)
class Match:
    """A text of a rule that stands in a text of the log."""

    rule: Rule
    text: LogText
    pattern: Pattern
    start: int
    """Where, in the text in normal form."""


@dataclass(frozen=True)
class _Entry:
    rule: Rule
    text: LogText
    pattern: Pattern


class TextIndex:
    """The texts of `rules`."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._by_anchor: dict[str, list[_Entry]] = defaultdict(list)
        self._without_anchor: list[_Entry] = []
        for rule in rules:
            for text in rule.log:
                entry = _Entry(rule, text, pattern(text.text))
                if entry.pattern.anchor is None:
                    self._without_anchor.append(entry)
                else:
                    self._by_anchor[entry.pattern.anchor].append(entry)

    def search(self, normal_text: str) -> Iterator[Match]:
        """Every text that stands in it, in no order that matters."""
        for entry in self._candidates(normal_text):
            found = entry.pattern.search(normal_text)
            if found:
                yield Match(entry.rule, entry.text, entry.pattern, found.start())

    def _candidates(self, normal_text: str) -> Iterator[_Entry]:
        for anchor in self._by_anchor.keys() & set(WORD.findall(normal_text)):
            yield from self._by_anchor[anchor]
        yield from self._without_anchor
