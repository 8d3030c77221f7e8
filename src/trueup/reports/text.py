"""The report for a terminal or a log file: verdict, stack, findings, ranks, steps, what is missing, files written.

Everything is words first; colour only repeats them. Text of the user's process is never read as markup.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trueup.reports import facts
from trueup.reports.plain import plain
from trueup.reports.stack import StackRow, stack_rows
from trueup.reports.verdict import verdict
from trueup.schema.finding import Finding
from trueup.schema.record import Record

STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan"}
NARROW = 140
"""Below this width the reasons stand under the stack table instead of in a column of their own."""


def render(record: Record, *, width: int = 100, colour: bool = False, files: Mapping[str, str] | None = None) -> str:
    """The report as text of at most `width` columns, but lines made to be copied are never broken.

    `files` names what was written and where, for the last lines: `{"record": ".trueup/runs/…/record.json"}`.
    """
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
    )
    console.print(Text(f"trueup: {verdict(record)}", style="bold"), soft_wrap=True)
    _print_stack(console, stack_rows(record))
    for finding in record.findings:  # in the order of the judgement: causes first
        _print_finding(console, finding)
    _print_facts(console, facts.of(record))
    _print_notes(console, record)
    if files:
        console.print()
    for name, place in (files or {}).items():
        console.print(Text.assemble((f"{name:<8}", "bold"), place), soft_wrap=True)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


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
                _labelled(console, row.layer, row.why, 14)


def _print_finding(console: Console, finding: Finding) -> None:
    console.print()
    heading = Text.assemble((finding.severity, STYLES[finding.severity]), " ", (plain(finding.rule), "bold"))
    if finding.confidence != "established":
        heading.append(f" ({finding.confidence})")
    console.print(heading)
    console.print(Padding(Text(plain(finding.message)), (0, 0, 0, 2)))
    if finding.follows:
        console.print(Text(f"  follows from {plain(finding.follows)}"), soft_wrap=True)
    for evidence in finding.evidence:
        console.print(Text(f"  seen   {plain(facts.evidence_in_words(evidence))}"), soft_wrap=True)
    _labelled(console, "cause", finding.cause, 7)
    for remedy in finding.remedies:
        console.print(Text.assemble("  do     ", (plain(remedy.how), "bold")), soft_wrap=True)
        if remedy.automatic:
            console.print(Text(f"         trueup can apply this by itself: {plain(remedy.id)}"), soft_wrap=True)
    for source in finding.sources:
        console.print(Text(f"  see    {plain(source)}"), soft_wrap=True)


def _labelled(console: Console, label: str, text: str, indent: int) -> None:
    """A wrapped paragraph with its label in the margin."""
    grid = Table.grid(padding=(0, 0))
    grid.add_column(width=2 + indent, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(f"  {label}"), Text(plain(text)))
    console.print(grid)


def _print_facts(console: Console, lines: Iterator[tuple[str, str]]) -> None:
    console.print()
    previous = ""
    for label, text in lines:
        grid = Table.grid()
        grid.add_column(width=8, no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(Text("" if label == previous else label, style="bold"), Text(plain(text)))
        console.print(grid)
        previous = label


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
