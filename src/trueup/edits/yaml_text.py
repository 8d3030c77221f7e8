"""A key of a YAML mapping set in its text: comments, quotes and order stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml


def with_key(text: str, path: Sequence[str], value: str | int | float | bool) -> str | None:
    """`text` with the key at `path` set; a mapping on the way that is missing is made.

    None when that is not clear: no mapping there, anchors or merged keys, or the result means something else.
    """
    try:
        documents = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
        before = yaml.safe_load(text)
    except yaml.YAMLError:
        return None
    if len(documents) != 1 or not isinstance(documents[0], yaml.MappingNode) or not isinstance(before, dict):
        return None
    new = _with(text, documents[0], path, value)
    try:
        return new if new is not None and yaml.safe_load(new) == _changed(before, path, value) else None
    except yaml.YAMLError:
        return None


def scalar(value: str | int | float | bool) -> str:
    """A value as it stands in a YAML file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and yaml.safe_load(value) != value:
        return f"'{value}'"
    return str(value)


def _with(text: str, mapping: yaml.MappingNode, path: Sequence[str], value: str | int | float | bool) -> str | None:
    name, rest = path[0], path[1:]
    for key, node in mapping.value:
        if key.value != name:
            continue
        if rest:
            if isinstance(node, yaml.MappingNode) and node.value:
                return _with(text, node, rest, value)
            return None
        if not isinstance(node, yaml.ScalarNode):
            return None
        start, end = node.start_mark.index, node.end_mark.index
        gap = " " if start == end else ""
        return f"{text[:start]}{gap}{scalar(value)}{text[end:]}"
    return _added(text, mapping, path, value)


def _added(text: str, mapping: yaml.MappingNode, path: Sequence[str], value: str | int | float | bool) -> str | None:
    """A new last key of `mapping`."""
    if not mapping.value:
        return None
    last_key, last = mapping.value[-1]
    if mapping.flow_style:
        inner = "".join(f"{{{key}: " for key in path[1:])
        at = last.end_mark.index
        return f"{text[:at]}, {path[0]}: {inner}{scalar(value)}{'}' * (len(path) - 1)}{text[at:]}"
    column = last_key.start_mark.column
    lines = [f"{' ' * (column + 2 * depth)}{key}:" for depth, key in enumerate(path)]
    lines[-1] += f" {scalar(value)}"
    at = _line_end(text, _content_end(last))
    newline = "" if text[:at].endswith("\n") else "\n"
    return f"{text[:at]}{newline}{chr(10).join(lines)}\n{text[at:]}"


def _content_end(node: yaml.Node) -> int:
    """Index behind the last scalar of a node: the end of a block mapping lies in front of the next token."""
    if isinstance(node, yaml.MappingNode) and node.value and not node.flow_style:
        return _content_end(node.value[-1][1])
    if isinstance(node, yaml.SequenceNode) and node.value and not node.flow_style:
        return _content_end(node.value[-1])
    return int(node.end_mark.index)


def _line_end(text: str, index: int) -> int:
    if index and text[index - 1] == "\n":
        return index
    end = text.find("\n", index)
    return len(text) if end < 0 else end + 1


def _changed(before: dict[str, Any], path: Sequence[str], value: object) -> dict[str, Any]:
    name, rest = path[0], path[1:]
    inner = before.get(name)
    return {**before, name: _changed(inner if isinstance(inner, dict) else {}, rest, value) if rest else value}
