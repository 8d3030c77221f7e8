"""What the text reports of all commands share: a console, and how a finding is printed.

Everything is words first; colour only repeats them. Text of the user's process is never read as markup.
"""

from __future__ import annotations

import io

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from trueup.reports import facts
from trueup.reports.plain import plain
from trueup.schema.finding import Finding

STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan"}


def console_of(width: int, colour: bool) -> Console:
    """A console that prints into a text; `printed` gives it back."""
    return Console(
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


def printed(console: Console) -> str:
    """What was printed, without blanks at the ends of lines."""
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def print_finding(console: Console, finding: Finding) -> None:
    """A finding with its evidence, cause, remedies and sources; lines made to be copied are never broken."""
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
    labelled(console, "cause", finding.cause, 7)
    for remedy in finding.remedies:
        console.print(Text.assemble("  do     ", (plain(remedy.how), "bold")), soft_wrap=True)
    for source in finding.sources:
        console.print(Text(f"  see    {plain(source)}"), soft_wrap=True)


def labelled(console: Console, label: str, text: str, indent: int) -> None:
    """A wrapped paragraph with its label in the margin."""
    margin = f"  {label}"
    for line in Text(plain(text)).wrap(console, console.width - 2 - indent, overflow="fold"):
        console.print(Text(margin.ljust(2 + indent)) + line, soft_wrap=True)
        margin = ""
