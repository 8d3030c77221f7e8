"""What to type next, from what was found."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from trueup.schema.record import Record


def next_steps(record: Record) -> Iterator[tuple[str, str]]:
    """(label, command line): the repair, where one can be applied from outside, and the page of the first finding."""
    applied = record.variant.get("remedies") or ()
    offered = [remedy for finding in record.findings for remedy in finding.remedies if remedy.automatic]
    if record.command and any(remedy.id not in applied for remedy in offered):
        yield "next", f"trueup fix -- {shlex.join(record.command)}"
    if record.findings:
        yield "more", f"trueup rules {shlex.quote(record.findings[0].rule)}"
