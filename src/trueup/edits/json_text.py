"""A key of a JSON object set in its text: layout and order stay."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

SPACE = re.compile(r"[ \t\r\n]*")


def with_key(text: str, path: Sequence[str], value: str | int | float | bool) -> str | None:
    """`text` with the key at `path` set; objects on the way must be there, but for the last.

    None when the text is no JSON object, or the result means something else.
    """
    try:
        before = json.loads(text)
    except ValueError:
        return None
    if not isinstance(before, dict):
        return None
    new = _with(text, _space(text, 0), path, value)
    try:
        return new if new is not None and json.loads(new) == _changed(before, path, value) else None
    except ValueError:
        return None


def _with(text: str, start: int, path: Sequence[str], value: object) -> str | None:
    """`start` is the index of the opening brace."""
    if text[start] != "{":
        return None
    at = _space(text, start + 1)
    first, end = at, start + 1
    while text[at] == '"':
        name, behind = scanstring(text, at + 1)
        begin = _space(text, _space(text, behind) + 1)
        _, end = json.JSONDecoder().raw_decode(text, begin)
        if name == path[0]:
            if len(path) > 1:
                return _with(text, begin, path[1:], value)
            return f"{text[:begin]}{json.dumps(value)}{text[end:]}"
        at = _space(text, end)
        if text[at] == ",":
            at = _space(text, at + 1)
    new: object = value
    for name in reversed(path[1:]):
        new = {name: new}
    line = f"{json.dumps(path[0])}: {json.dumps(new)}"
    if end == start + 1:
        return f"{text[:end]}{line}{text[end:]}"
    return f"{text[:end]},{text[start + 1 : first] or ' '}{line}{text[end:]}"


def _space(text: str, index: int) -> int:
    match = SPACE.match(text, index)
    return match.end() if match is not None else index


def _changed(before: dict[str, Any], path: Sequence[str], value: object) -> dict[str, Any]:
    name, rest = path[0], path[1:]
    inner = before.get(name)
    return {**before, name: _changed(inner if isinstance(inner, dict) else {}, rest, value) if rest else value}
