"""What was seen, and on which ranks, in words."""

from __future__ import annotations

from collections.abc import Iterable

from trueup.reports.excerpt import first_line
from trueup.schema.finding import Evidence

LONGEST_VALUE = 240
"""Characters of a text among the evidence; the record holds all of it."""


def evidence_in_words(evidence: Evidence) -> str:
    """`what: value at file:line (ranks 0, 1)`."""
    text = evidence.what
    if evidence.value is not None:
        value = first_line(evidence.value, LONGEST_VALUE) if isinstance(evidence.value, str) else evidence.value
        text += f": {value:.4g}" if isinstance(value, float) else f": {value}"
    if evidence.at:
        text += f"  at {evidence.at}"
    return text + ranks_in_words(evidence.ranks)


def ranks_in_words(ranks: tuple[int, ...]) -> str:
    """` (rank 1)`, ` (ranks 0 to 63)`; empty for none."""
    if not ranks:
        return ""
    return f" ({'rank' if len(ranks) == 1 else 'ranks'} {numbers_in_words(ranks)})"


def numbers_in_words(numbers: Iterable[int]) -> str:
    """`1`, `0, 1`, `0 to 63`, `0 to 5, 7`: runs of three and more are folded."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return ", ".join(words[:8]) + (", …" if len(words) > 8 else "")
