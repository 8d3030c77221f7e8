"""A key of a TOML table set in its text: comments, layout and order stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tomlkit
import tomlkit.container
import tomlkit.items
from tomlkit.exceptions import TOMLKitError


def with_key(text: str, path: Sequence[str], value: str | int | float | bool) -> str | None:
    """`text` with the key at `path` set; a table that is missing is made. None when the text is no TOML."""
    try:
        document = tomlkit.parse(text)
    except TOMLKitError:
        return None
    table: tomlkit.container.Container | tomlkit.items.Table = document
    for name in path[:-1]:
        if name not in table:
            table[name] = tomlkit.table()
        inner = table[name]
        if not isinstance(inner, tomlkit.items.Table):
            return None
        table = inner
    table[path[-1]] = value
    return tomlkit.dumps(document)


def content(text: str) -> dict[str, Any] | None:
    """The values of a TOML text; None when it is none."""
    try:
        return tomlkit.parse(text).unwrap()
    except TOMLKitError:
        return None
