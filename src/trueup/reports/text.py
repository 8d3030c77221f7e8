"""The report for a terminal or a log file: verdict, what was forced, stack, findings, facts, files, what to do next.

Everything is words first; colour only repeats them. Text of the user's process is never read as markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trueup.reports import facts
from trueup.reports.onward import next_steps
from trueup.reports.plain import plain
from trueup.reports.stack import StackRow, stack_rows
from trueup.reports.terminal import console_of, labelled, print_finding, printed
from trueup.reports.variant import changes
from trueup.reports.verdict import verdict
from trueup.schema.record import Record

NARROW = 140
"""Below this width the reasons stand under the stack table instead of in a column of their own."""


def render(record: Record, *, width: int = 100, colour: bool = False, files: Mapping[str, str] | None = None) -> str:
    """The report as text of at most `width` columns, but lines made to be copied are never broken.

    `files` names what was written and where, for the last lines: `{"record": ".trueup/runs/…/record.json"}`.
    """
    console = console_of(width, colour)
    console.print(Text(f"trueup: {verdict(record)}", style="bold"), soft_wrap=True)
    _print_facts(console, list(changes(record)), margin=10)
    _print_stack(console, stack_rows(record))
    for finding in record.findings:  # in the order of the judgement: causes first
        print_finding(console, finding)
    _print_facts(console, list(facts.of(record)))
    _print_notes(console, record)
    _print_lines(console, (files or {}).items())
    _print_lines(console, next_steps(record))
    return printed(console)


def _print_stack(console: Console, rows: list[StackRow]) -> None:
    if not rows:
        return
    wide = console.width >= NARROW and any(row.why for row in rows)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False, header_style="bold")
    table.add_column("layer", no_wrap=True)
    table.add_column("requested", overflow="fold", ratio=5)
    table.add_column("actual", overflow="fold", ratio=5)
    table.add_column("coverage", overflow="fold", ratio=3)
    if wide:
        table.add_column("why", overflow="fold", ratio=6)
    for row in rows:
        cells = [row.layer, row.requested or "-", row.actual or "not observed", row.coverage or "-"]
        table.add_row(*(Text(plain(cell)) for cell in [*cells, row.why][: 5 if wide else 4]))
    console.print()
    console.print(table)
    if not wide and any(row.why for row in rows):
        console.print()
        console.print(Text("why", style="bold"))
        for row in rows:
            if row.why:
                labelled(console, row.layer, row.why, 14)


def _print_facts(console: Console, lines: list[tuple[str, str]], margin: int = 8) -> None:
    if lines:
        console.print()
    previous = ""
    for label, text in lines:
        grid = Table.grid()
        grid.add_column(width=margin, no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(Text("" if label == previous else label, style="bold"), Text(plain(text)))
        console.print(grid)
        previous = label


def _print_lines(console: Console, lines: Iterable[tuple[str, str]]) -> None:
    """Lines made to be copied, never broken."""
    for place, (label, text) in enumerate(lines):
        if not place:
            console.print()
        console.print(Text.assemble((f"{label:<8}", "bold"), plain(text)), soft_wrap=True)


def _print_notes(console: Console, record: Record) -> None:
    notes = facts.notes(record)
    if not notes:
        return
    console.print()
    console.print(Text("What this record lacks", style="bold"))
    for note in notes:
        grid = Table.grid()
        grid.add_column(width=4, no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(Text("  - "), Text(plain(note)))
        console.print(grid)
