"""How a finding is printed in the text reports of all commands.

Everything is words first; colour only repeats them. Text of the user's process is never read as markup.
"""

from __future__ import annotations

from trueup.reports.evidence import evidence_in_words
from trueup.reports.page import Page
from trueup.reports.plain import plain
from trueup.schema.finding import Finding


def print_finding(page: Page, finding: Finding) -> None:
    """A finding with its evidence, cause, remedies and sources; lines made to be copied are never broken."""
    page.blank()
    doubt = "" if finding.confidence == "established" else f" ({finding.confidence})"
    page.line((finding.severity, finding.severity), " ", (plain(finding.rule), "bold"), doubt)
    page.paragraph(plain(finding.message), indent=2)
    if finding.follows:
        page.line(f"  follows from {plain(finding.follows)}")
    for evidence in finding.evidence:
        page.line(f"  seen   {plain(evidence_in_words(evidence))}")
    labelled(page, "cause", finding.cause, 7)
    for remedy in finding.remedies:
        page.line("  do     ", (plain(remedy.how), "bold"))
    for source in finding.sources:
        page.line(f"  see    {plain(source)}")


def labelled(page: Page, label: str, text: str, indent: int) -> None:
    """A wrapped paragraph with its label in the margin."""
    page.paragraph(plain(text), label=f"  {label}", indent=2 + indent)
