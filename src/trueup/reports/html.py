"""The report as one self-contained HTML file: no script, nothing loaded, every value escaped."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from trueup import __version__
from trueup.reports import facts
from trueup.reports.chart import HEIGHT, WIDTH, chart
from trueup.reports.evidence import evidence_in_words
from trueup.reports.plain import plain
from trueup.reports.quantities import percent
from trueup.reports.stack import stack_rows
from trueup.reports.variant import changes
from trueup.reports.verdict import verdict
from trueup.schema.record import Record

LONGEST_TABLE = 500
"""Rows of one table; the record holds the rest."""


def render(record: Record) -> str:
    """The page of a run as text."""
    return template("report.html.j2").render(
        version=record.trueup_version or __version__,
        record=record,
        verdict=verdict(record),
        changes=list(changes(record)),
        stack=stack_rows(record),
        facts=list(facts.of(record)),
        notes=facts.notes(record),
        charts=[
            found
            for found in (
                chart("Seconds per step", record.steps.seconds, record.steps.stride, " s"),
                chart("Loss", record.steps.losses, record.steps.stride),
            )
            if found
        ],
        chart_width=WIDTH,
        chart_height=HEIGHT,
        longest=LONGEST_TABLE,
    )


def safe(value: Any) -> Any:
    """What the template prints: text without controls, `-` for what was not observed. Escaping follows."""
    if isinstance(value, Markup):  # what a macro of the template made, already safe
        return value
    if value is None or value == "":
        return "-"
    return plain(value) if isinstance(value, str) else value


@cache
def template(name: str) -> jinja2.Template:
    """A page with everything that the templates ask for."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=safe,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = lambda share: None if share is None else percent(share)
    environment.filters["evidence"] = evidence_in_words
    return environment.get_template(name)
