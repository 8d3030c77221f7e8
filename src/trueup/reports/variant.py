"""What a run changed about its command: forced layers, remedies, variables, and the name of it all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trueup.schema.record import Record


def changes(record: Record) -> Iterator[tuple[str, str]]:
    """(label, text) lines below the verdict of every report; none for a command that ran as it is."""
    forced, remedies = forced_in_words(record), ", ".join(record.variant.get("remedies") or ())
    variables = ", ".join(f"{name}={value}" for name, value in _mapping(record, "environment").items())
    yield from ((label, text) for label, text in zip(LABELS, (forced, remedies, variables), strict=True) if text)


LABELS = ("forced", "remedies", "set")


def forced_in_words(record: Record) -> str:
    """`compile=off, attention=math`; empty when no layer was forced."""
    return ", ".join(f"{layer}={value}" for layer, value in _mapping(record, "layers").items())


def forced(record: Record, layer: str) -> str | None:
    """The value that the variant forces on a layer."""
    value = _mapping(record, "layers").get(layer)
    return None if value is None else str(value)


def _mapping(record: Record, field: str) -> Mapping[str, object]:
    value = record.variant.get(field)
    return value if isinstance(value, Mapping) else {}
