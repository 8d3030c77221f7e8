"""Text that can be written: arguments, paths and messages may hold bytes that are no UTF-8, as lone surrogates."""

from __future__ import annotations

from typing import Any

import msgspec

from trueup.schema.record import Record


def encodable(value: Any) -> Any:
    """The built-in value with every string made writable; what is no character is shown as `\\\\udcff`."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {encodable(name): encodable(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encodable(item) for item in value]
    return value


def writable(record: Record) -> Record:
    """The record with every string made writable."""
    return msgspec.convert(encodable(msgspec.to_builtins(record)), Record)
