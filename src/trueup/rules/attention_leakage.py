"""What rules take from the measurement of `--probe packing`."""

from __future__ import annotations

from trueup.schema.finding import Evidence
from trueup.schema.record import Attention

OF_ATTENTION = 0.1
"""A change of other rows beyond this share of the largest: not attention, which sees one row, mixed the documents."""


def leaks(attention: Attention) -> bool:
    """True when a document was measured to change a later one of its row, and not other rows as well."""
    found = attention.leakage
    if found is None or found.verdict != "leak":
        return False
    return (found.other_rows or 0.0) <= OF_ATTENTION * (found.change or 0.0)


def measured_clean(attention: Attention) -> bool:
    """True when it was measured that attention keeps the documents apart."""
    found = attention.leakage
    if found is None:
        return False
    return found.verdict in ("none", "rounding") or (found.verdict == "leak" and not leaks(attention))


def leak_in_words(attention: Attention) -> str:
    """`; changing document 1 moved document 2 by 0.32 of 0.56`; empty without a measured leak."""
    found = attention.leakage
    if found is None or not leaks(attention):
        return ""
    return (
        f"; changing the tokens of document {found.source} moved logits of document {found.target} by "
        f"{found.change:.2g}, the largest logit is {found.scale:.2g}"
    )


def leak_evidence(attention: Attention) -> tuple[Evidence, ...]:
    found = attention.leakage
    if found is None or not leaks(attention):
        return ()
    return (
        Evidence(
            what=f"largest change at document {found.target} when document {found.source} of row {found.row} changes",
            value=found.change,
            ranks=found.ranks,
        ),
        Evidence(what="largest difference between two equal computations", value=found.noise),
        Evidence(what="documents are told apart by", value=found.seen_in),
    )
