"""Lines that are JSON objects: container engines, structured loggers, torchrun's error file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from trueup.logs.prefixes import LEVELS

_TEXTS = ("log", "message", "msg", "textPayload", "MESSAGE", "text", "event", "content", "body")
_TRACES = ("exc_info", "traceback", "stack_trace", "exception", "stack", "error", "py_callstack")
_TIMES = ("time", "timestamp", "ts", "@timestamp", "asctime", "datetime")
_LEVELS = ("level", "levelname", "severity", "lvl")
_RANKS = ("rank", "global_rank", "RANK")
_HOSTS = ("host", "hostname", "pod", "node")
LONGEST = 4 << 20


@dataclass(frozen=True, slots=True)
class Fields:
    """What a JSON line says; `text` may have several lines."""

    text: str
    time: str | None
    level: str | None
    rank: int | None
    host: str | None


def fields(text: str) -> Fields | None:
    """The message of a line that is a JSON object; None when it is none or has no message."""
    if len(text) > LONGEST:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    payload = value.get("jsonPayload")
    if isinstance(payload, dict):
        value = {**value, **payload}
    inner = value.get("message")
    if isinstance(inner, dict):  # torchrun's error.json
        extra = inner.get("extraInfo")
        value = {**value, **inner, **(extra if isinstance(extra, dict) else {})}
        if isinstance(value.get("py_callstack"), str):
            value.pop("message", None)
    parts = [value[key] for key in _TEXTS if isinstance(value.get(key), str)][:1]
    parts += [value[key] for key in _TRACES if isinstance(value.get(key), str) and "\n" in value[key]]
    if not parts:
        return None
    level = _first(value, _LEVELS)
    rank = value.get(next((key for key in _RANKS if key in value), ""))
    level = level.upper() if level else None
    return Fields(
        "\n".join(parts),
        _first(value, _TIMES),
        LEVELS.get(level, level) if level else None,
        rank if isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < 10**6 else None,
        _first(value, _HOSTS),
    )


def _first(value: dict[str, Any], keys: tuple[str, ...]) -> str | None:
    found = next((value[key] for key in keys if isinstance(value.get(key), (str, int, float))), None)
    return None if found is None or isinstance(found, bool) else str(found)
