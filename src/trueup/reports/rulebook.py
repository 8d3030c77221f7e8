"""The knowledge: a list of rules, or one rule in full."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from trueup.reports.plain import plain
from trueup.reports.quantities import count
from trueup.schema.finding import Remedy
from trueup.schema.layer import Layer


class RuleText(Protocol):
    """What a rule tells about itself."""

    @property
    def id(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def layers(self) -> tuple[Layer, ...]: ...
    @property
    def severity(self) -> str: ...
    @property
    def silent(self) -> str: ...
    @property
    def cause(self) -> str: ...
    @property
    def remedies(self) -> Sequence[Remedy]: ...
    @property
    def versions(self) -> Mapping[str, str]: ...
    @property
    def caution(self) -> str: ...
    @property
    def sources(self) -> Sequence[str]: ...


def listing(rules: Sequence[RuleText]) -> str:
    """One line a rule: severity, id, title."""
    longest = max((len(rule.id) for rule in rules), default=0)
    return "".join(f"{rule.severity:<8} {rule.id:<{longest}}  {plain(rule.title)}\n" for rule in rules)


def page(rule: RuleText, width: int = 100) -> str:
    """Everything about one rule."""
    parts = [f"{rule.id}\n{plain(rule.title)}\n\n{rule.severity}; touches {', '.join(rule.layers)}\n"]
    for title, text in _paragraphs(rule):
        if text:
            filled = textwrap.fill(plain(text, 10_000), width, initial_indent="  ", subsequent_indent="  ")
            parts.append(f"{title}\n{filled}\n")
    for title, lines in _lists(rule):
        if lines:
            parts.append(f"{title}\n" + "".join(f"  {plain(line)}\n" for line in lines))
    return "\n".join(parts)


def as_json(rules: Iterable[RuleText]) -> str:
    """The rules' texts as a JSON list."""
    names = ("id", "title", "layers", "severity", "silent", "cause", "remedies", "versions", "caution", "sources")
    texts: list[dict[str, Any]] = [{name: _builtins(getattr(rule, name)) for name in names} for rule in rules]
    return json.dumps(texts, indent=1, ensure_ascii=False) + "\n"


def as_sarif(rules: Iterable[RuleText]) -> str:
    """The rules' descriptors, as they stand in the log of any run, and no results."""
    from trueup.reports import sarif

    return sarif.log_with(
        [sarif.descriptor(rule.id, rule.title, rule) for rule in rules], [], {"executionSuccessful": True}
    )


def as_html(rules: Sequence[RuleText]) -> str:
    """One self-contained page."""
    from trueup import __version__
    from trueup.reports import html

    return html.template("rulebook.html.j2").render(
        version=__version__,
        verdict=rules[0].id if len(rules) == 1 else count(len(rules), "failure class", "failure classes"),
        rules=rules,
        paragraphs=_paragraphs,
    )


def _builtins(value: Any) -> Any:
    return msgspec.to_builtins(dict(value) if isinstance(value, Mapping) else value)


def _paragraphs(rule: RuleText) -> list[tuple[str, str]]:
    return [
        ("Why it stays unnoticed", rule.silent),
        ("Cause", rule.cause),
        ("Not to be confused with", rule.caution),
    ]


def _lists(rule: RuleText) -> list[tuple[str, list[str]]]:
    return [
        ("What to do", [remedy.how for remedy in rule.remedies]),
        ("Applies to", [f"{package} {versions}".strip() for package, versions in rule.versions.items()]),
        ("Sources", list(rule.sources)),
    ]
