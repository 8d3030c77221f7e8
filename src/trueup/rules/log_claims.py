"""Which rules claim to explain which failures of a log, and how well each fits."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from trueup.rules.definition import LogText, Rule, Sighting, within
from trueup.rules.log_index import Match, TextIndex
from trueup.rules.log_parts import Part, frames, last_name, once_per_log, parts_of, place, printed, ranks_of
from trueup.rules.log_text import pattern
from trueup.schema.finding import Confidence, Evidence
from trueup.schema.layer import LAYERS
from trueup.schema.log import Failure, Log

NUMBER = re.compile(r"\d+")
WHOLE_LOG = -1
"""Position of what a detector saw in the log as a whole."""


@dataclass(frozen=True)
class Claim:
    """A rule that explains a failure."""

    rule: Rule
    failure: Failure | None
    position: int
    """Of the failure among those of the log, or WHOLE_LOG."""
    confidence: Confidence
    weight: int
    evidence: tuple[Evidence, ...]
    sighting: Sighting | None = None

    @property
    def certain(self) -> bool:
        """False when it is no more than possible."""
        return self.confidence != "possible"

    @property
    def fit(self) -> tuple[int, int, str]:
        """Order of claims on one failure, the closest first."""
        return -self.weight, LAYERS.index(self.rule.layers[0]), self.rule.id


@dataclass(frozen=True)
class _Hit:
    """A text that stands in a part of a failure."""

    part: Part
    match: Match
    said: bool
    """The part says it; else its traceback shows it."""


def claims_of(rule: Rule, seen: Sighting, log: Log) -> Iterator[Claim]:
    """The claim of a detector on its failure, and on those that say the same but for numbers, as other ranks do."""
    position = next((at for at, each in enumerate(log.failures) if each is seen.failure), WHOLE_LOG)
    yield Claim(rule, seen.failure, position, seen.confidence, seen.specificity, seen.evidence, seen)
    if seen.failure is None or position == WHOLE_LOG:
        return
    kinds = kinds_of_failures(log)
    for other, failure in enumerate(log.failures):
        if other != position and kinds[other] == kinds[position]:
            evidence = (said_by(log, failure),)
            yield Claim(rule, failure, other, seen.confidence, seen.specificity, evidence, seen)


@once_per_log
def kinds_of_failures(log: Log) -> tuple[str, ...]:
    """For each failure what it says without its numbers."""
    return tuple(NUMBER.sub("#", printed(failure)) for failure in log.failures)


def said_by(log: Log, failure: Failure) -> Evidence:
    """The first line of a failure."""
    line, number = Part(failure).line_of(0)
    return Evidence(what="printed", value=line, at=place(log, failure, number), ranks=ranks_of(failure))


class TextClaims:
    """What the texts of the rules claim about one log."""

    def __init__(self, log: Log, index: TextIndex, rules: Iterable[Rule]) -> None:
        self._log = log
        self._index = index
        self._applying = {rule.id for rule in rules}
        self._known: dict[str, tuple[Match, ...]] = {}
        self._standing: dict[str, bool] = {}

    def __iter__(self) -> Iterator[Claim]:
        """One claim for each failure and rule of which a text fits; advice is no failure."""
        hits = self._hits()
        distinct = _distinct_texts(hit for of_failure in hits.values() for hit in of_failure)
        for position, of_failure in hits.items():
            by_rule: dict[str, list[_Hit]] = defaultdict(list)
            for hit in of_failure:
                by_rule[hit.match.rule.id].append(hit)
            for rule_id, of_rule in by_rule.items():
                yield self._claim(position, of_rule, distinct[rule_id])

    def _hits(self) -> dict[int, list[_Hit]]:
        """Position of a failure → the texts that stand in it."""
        positions = {id(failure): position for position, failure in enumerate(self._log.failures)}
        hits: dict[int, list[_Hit]] = defaultdict(list)
        for failure, part in parts_of(self._log):
            for said, text in ((True, part.said), (False, part.shown)):
                for match in self._search(text):
                    if match.rule.id in self._applying and self._counts(match.text, failure, part):
                        hits[positions[id(failure)]].append(_Hit(part, match, said))
        return hits

    def _search(self, text: str) -> tuple[Match, ...]:
        """Logs repeat themselves, so equal texts are searched once."""
        if text not in self._known:
            self._known[text] = tuple(self._index.search(text)) if text else ()
        return self._known[text]

    def _counts(self, text: LogText, failure: Failure, part: Part) -> bool:
        if text.kinds and failure.kind not in text.kinds:
            return False
        if text.types and part.failure.type and last_name(part.failure.type) not in text.types:
            return False
        if text.inside and not _inside(text, failure) and any(frames(failure)):
            return False
        return within(self._log.versions, text.gates) and not any(map(self._stands, text.not_with))

    def _stands(self, text: str) -> bool:
        """True when it stands anywhere in the log."""
        if text not in self._standing:
            wanted = pattern(text)
            self._standing[text] = any(
                wanted.search(part.said) or wanted.search(part.shown) for _, part in parts_of(self._log)
            )
        return self._standing[text]

    def _claim(self, position: int, hits: list[_Hit], distinct: set[str]) -> Claim:
        failure = self._log.failures[position]
        decisive = [hit for hit in hits if hit.match.text.strength == "decisive" and hit.said]
        confidence: Confidence = "possible"
        if decisive:
            confidence = "established"
        elif len(distinct) > 1 or any(_inside(hit.match.text, failure) for hit in hits):
            confidence = "likely"
        strongest = sorted(decisive or hits, key=lambda hit: (-hit.match.pattern.weight, hit.match.text.text))
        return Claim(
            rule=hits[0].match.rule,
            failure=failure,
            position=position,
            confidence=confidence,
            weight=strongest[0].match.pattern.weight,
            evidence=tuple(dict.fromkeys(self._evidence(failure, hit) for hit in strongest)),
        )

    def _evidence(self, failure: Failure, hit: _Hit) -> Evidence:
        ranks = ranks_of(failure)
        if not hit.said:
            where = place(self._log, failure)
            return Evidence(what="shown in the traceback", value=hit.match.text.text, at=where, ranks=ranks)
        line, number = hit.part.line_of(hit.match.start)
        origin = hit.part.failure if hit.part.failure.source else failure
        return Evidence(what="printed", value=line, at=place(self._log, origin, number), ranks=ranks)


def _inside(text: LogText, failure: Failure) -> bool:
    return any(part in frame.file for frame in frames(failure) for part in text.inside)


def _distinct_texts(hits: Iterable[_Hit]) -> dict[str, set[str]]:
    """Rule → its texts in this log, those left out that stand within another."""
    texts: dict[str, set[str]] = defaultdict(set)
    for hit in hits:
        texts[hit.match.rule.id].add(hit.match.text.text)
    return {
        rule: {text for text in of_rule if not any(text != other and text in other for other in of_rule)}
        for rule, of_rule in texts.items()
    }
