"""What `trueup doctor` prints, in every format: verdict, facts as a short table, findings, what could not be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from trueup.reports import environment
from trueup.reports.plain import plain
from trueup.reports.quantities import count
from trueup.schema.diagnosis import Diagnosis
from trueup.schema.finding import SEVERITIES

MOST_NOTES = 20


def verdict(diagnosis: Diagnosis) -> str:
    """The whole answer in one line: how much was found, and of what environment."""
    numbers = [(severity, sum(f.severity == severity for f in diagnosis.findings)) for severity in SEVERITIES]
    found = ", ".join(count(number, severity) for severity, number in numbers if number) or "nothing found"
    first = f": {diagnosis.findings[0].rule}" if diagnosis.findings else ""
    answer = "" if diagnosis.wheels is None else f"{diagnosis.wheels.summary}; "
    return plain(f"{answer}{found}{first}; {environment.in_words(diagnosis.facts)}")


def as_text(diagnosis: Diagnosis, *, width: int = 100, colour: bool = False) -> str:
    """For a terminal or a log file; lines made to be copied are never broken."""
    from trueup.reports.page import Page
    from trueup.reports.terminal import labelled, print_finding
    from trueup.reports.wheels import print_wheels

    page = Page(width, colour)
    page.line((f"trueup: {verdict(diagnosis)}", "bold"))
    page.blank()
    if diagnosis.wheels is not None:
        print_wheels(page, diagnosis.wheels)
    for label, text in environment.lines(diagnosis.facts):
        labelled(page, label, text, 12)
    for finding in diagnosis.findings:
        print_finding(page, finding)
    if diagnosis.facts.notes:
        page.blank()
        page.line(("What is not as it should be, or could not be read", "bold"))
        for note in notes(diagnosis):
            labelled(page, "-", note, 2)
    return page.text()


def notes(diagnosis: Diagnosis) -> Iterator[str]:
    """The first notes, and how many more there are."""
    yield from diagnosis.facts.notes[:MOST_NOTES]
    rest = len(diagnosis.facts.notes) - MOST_NOTES
    if rest > 0:
        yield f"and {count(rest, 'more note')}; --format json has them all"


def as_json(diagnosis: Diagnosis) -> str:
    """`{facts: {...}, findings: [...], wheels: {...} or null}`."""
    return msgspec.json.format(msgspec.json.encode(diagnosis), indent=1).decode() + "\n"


def as_sarif(diagnosis: Diagnosis) -> str:
    """The findings; what could not be read stands as notifications."""
    from trueup.reports import sarif

    said = [] if diagnosis.wheels is None else [diagnosis.wheels.summary]
    notifications = [{"level": "note", "message": {"text": plain(each)}} for each in (*said, *diagnosis.facts.notes)]
    invocation: dict[str, Any] = {"executionSuccessful": True, "toolExecutionNotifications": notifications}
    return sarif.log_of(diagnosis.findings, invocation)


def as_html(diagnosis: Diagnosis) -> str:
    """One self-contained page."""
    from trueup import __version__
    from trueup.reports import html, wheels

    return html.template("diagnosis.html.j2").render(
        version=diagnosis.trueup_version or __version__,
        verdict=verdict(diagnosis),
        all=diagnosis.findings,
        lines=list(environment.lines(diagnosis.facts)),
        notes=list(notes(diagnosis)),
        wheels=diagnosis.wheels,
        moved=[] if diagnosis.wheels is None else [wheels.move_in_words(move) for move in diagnosis.wheels.moves],
        considered="" if diagnosis.wheels is None else wheels.considered(diagnosis.wheels),
        nearest=[] if diagnosis.wheels is None else wheels.nearest(diagnosis.wheels),
    )
