"""The record itself, for programs."""

from __future__ import annotations

from trueup.schema.record import Record, record_to_json


def render(record: Record) -> str:
    """The record as JSON text that ends with a newline."""
    return record_to_json(record) + "\n"
