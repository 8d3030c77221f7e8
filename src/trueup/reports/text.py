"""The report for a terminal or a log file: verdict, what was forced, stack, findings, facts, files, what to do next.

Everything is words first; colour only repeats them. Text of the user's process is never read as markup.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trueup.reports import facts
from trueup.reports.onward import next_steps
from trueup.reports.page import Page
from trueup.reports.plain import plain
from trueup.reports.stack import StackRow, stack_rows
from trueup.reports.terminal import labelled, print_finding
from trueup.reports.variant import changes
from trueup.reports.verdict import verdict
from trueup.schema.record import Record

NARROW = 140
"""Below this width the reasons stand under the stack table instead of in a column of their own."""


def render(record: Record, *, width: int = 100, colour: bool = False, files: Mapping[str, str] | None = None) -> str:
    """The report as text of at most `width` columns, but lines made to be copied are never broken.

    `files` names what was written and where, for the last lines: `{"record": ".trueup/runs/…/record.json"}`.
    """
    page = Page(width, colour)
    page.line((f"trueup: {verdict(record)}", "bold"))
    _print_facts(page, list(changes(record)), margin=10)
    _print_stack(page, stack_rows(record))
    for finding in record.findings:  # in the order of the judgement: causes first
        print_finding(page, finding)
    _print_facts(page, list(facts.of(record)))
    _print_notes(page, record)
    _print_lines(page, (files or {}).items())
    _print_lines(page, next_steps(record))
    return page.text()


def _print_stack(page: Page, rows: list[StackRow]) -> None:
    if not rows:
        return
    wide = page.width >= NARROW and any(row.why for row in rows)
    page.blank()
    page.block(stack_table(rows, page.width, page.colour, with_reasons=wide))
    if not wide and any(row.why for row in rows):
        page.blank()
        page.line(("why", "bold"))
        for row in rows:
            if row.why:
                labelled(page, row.layer, row.why, 14)


def stack_table(rows: list[StackRow], width: int, colour: bool, *, with_reasons: bool) -> str:
    """What was requested and what ran, a layer a row; cells are folded so that all of them stand in `width` columns."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False, header_style="bold")
    table.add_column("layer", no_wrap=True)
    table.add_column("requested", overflow="fold", ratio=5)
    table.add_column("actual", overflow="fold", ratio=5)
    table.add_column("coverage", overflow="fold", ratio=3)
    if with_reasons:
        table.add_column("why", overflow="fold", ratio=6)
    for row in rows:
        cells = [row.layer, row.requested or "-", row.actual or "not observed", row.coverage or "-"]
        table.add_row(*(Text(plain(cell)) for cell in [*cells, row.why][: 5 if with_reasons else 4]))
    printed = io.StringIO()
    Console(
        file=printed,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
    ).print(table)
    return printed.getvalue()


def _print_facts(page: Page, lines: list[tuple[str, str]], margin: int = 8) -> None:
    if lines:
        page.blank()
    previous = ""
    for label, text in lines:
        page.paragraph(plain(text), "" if label == previous else label, margin, "bold")
        previous = label


def _print_lines(page: Page, lines: Iterable[tuple[str, str]]) -> None:
    """Lines made to be copied, never broken."""
    for place, (label, text) in enumerate(lines):
        if not place:
            page.blank()
        page.line((f"{label:<8}", "bold"), plain(text))


def _print_notes(page: Page, record: Record) -> None:
    notes = facts.notes(record)
    if not notes:
        return
    page.blank()
    page.line(("What this record lacks", "bold"))
    for note in notes:
        labelled(page, "-", note, 2)
