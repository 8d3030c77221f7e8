"""What `trueup explain` prints, in every format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from trueup import __version__
from trueup.reports import html, sarif
from trueup.reports.evidence import numbers_in_words, ranks_in_words
from trueup.reports.page import Page
from trueup.reports.plain import plain
from trueup.reports.quantities import count, size
from trueup.reports.terminal import labelled, print_finding
from trueup.schema.explanation import Explanation, Unexplained

NOTHING = "no failure found"
INDENT = 11
EMPTY = "no text could be read"


def as_text(explanation: Explanation, *, width: int = 100, colour: bool = False) -> str:
    """The root finding first; what is not known where nothing fits."""
    page = Page(width, colour)
    page.line((f"trueup: {verdict(explanation)}", "bold"))
    certain = any(finding.confidence != "possible" for finding in explanation.findings)
    if certain:
        for finding in explanation.findings:
            print_finding(page, finding)
    for failure in explanation.unexplained:
        page.blank()
        page.line(("not known", "error"), f" {plain(failure.text)}")
        for label, value in told(failure):
            labelled(page, label, value, INDENT)
    if not certain:
        for finding in explanation.findings:
            print_finding(page, finding)
    page.blank()
    labelled(page, "read", read_in_words(explanation), INDENT)
    for note in explanation.notes:
        labelled(page, "note", plain(note), INDENT)
    return page.text()


def as_json(explanation: Explanation) -> str:
    """`{findings: [...], unexplained: [...], ...}`."""
    return msgspec.json.format(msgspec.json.encode(explanation), indent=1).decode() + "\n"


def as_sarif(explanation: Explanation) -> str:
    """The findings, at their lines of the log; failures that are not known stand as notifications."""
    notifications = [
        {"level": "error", "message": {"text": f"not known: {plain(failure.text)}"}}
        for failure in explanation.unexplained
    ]
    notifications += [{"level": "warning", "message": {"text": plain(note)}} for note in explanation.notes]
    invocation: dict[str, Any] = {"executionSuccessful": True, "toolExecutionNotifications": notifications}
    return sarif.log_of(explanation.findings, invocation)


def as_html(explanation: Explanation) -> str:
    """One self-contained page."""
    return html.template("explanation.html.j2").render(
        version=__version__,
        verdict=verdict(explanation),
        all=explanation.findings,
        unexplained=[(failure.text, list(told(failure))) for failure in explanation.unexplained],
        read=read_in_words(explanation),
        notes=[plain(note) for note in explanation.notes],
    )


def verdict(explanation: Explanation) -> str:
    """The whole answer in one line."""
    findings, unknown = explanation.findings, explanation.unexplained
    root = next((finding for finding in findings if finding.confidence != "possible"), None)
    behind = len(findings) - 1
    more = f"; {count(behind, 'more finding')}" if behind > 0 else ""
    if unknown:
        maybe = f"; {count(len(findings), 'finding')} beside it" if findings else ""
        return plain(f"not known: {unknown[0].text}{maybe}")
    if root is not None:
        return plain(f"{root.rule}{'' if root.confidence == 'established' else f' ({root.confidence})'}{more}")
    if findings:
        return plain(f"possibly {findings[0].rule}{more}")
    if not explanation.lines:
        return EMPTY
    return f"{NOTHING} in what could be read" if explanation.notes else NOTHING


def told(failure: Unexplained) -> Iterator[tuple[str, str]]:
    """What could be told of a failure that no rule knows, as labelled lines."""
    if failure.at:
        yield (
            "at",
            failure.at + ranks_in_words(failure.ranks) + (f", {failure.count} times" if failure.count > 1 else ""),
        )
    if failure.type:
        yield "type", failure.type
    if failure.layer:
        yield "layer", f"{failure.layer}, by the innermost library frame: {failure.library}"
    if failure.user:
        yield "your code", failure.user


def read_in_words(explanation: Explanation) -> str:
    """What was read: files, lines, ranks, versions."""
    sources = explanation.sources
    parts = [sources[0] if len(sources) == 1 else count(len(sources), "file")] if sources else []
    parts += [count(explanation.lines, "line"), size(explanation.size)]
    if explanation.ranks:
        of = f" of {explanation.world_size}" if explanation.world_size else ""
        parts.append(f"{'rank' if len(explanation.ranks) == 1 else 'ranks'} {numbers_in_words(explanation.ranks)}{of}")
    parts += [f"{name} {version}" for name, version in explanation.versions.items()]
    return ", ".join(parts)
