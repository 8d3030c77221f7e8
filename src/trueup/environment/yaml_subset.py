"""The part of YAML that configuration tools write: nested mappings of scalars, and lists of scalars.

The base install has no YAML library, and a file that uses more than this part is told as unread rather than guessed.
"""

from __future__ import annotations

import re

KEY = re.compile(r"""(?P<key>"[^"]+"|'[^']+'|[^\s:#'"\[\]{},&*!|>%@`-][^:#]*?)\s*:(?:\s+(?P<value>.*))?""")
COMMENT = re.compile(r"\s+#.*$")
BEYOND = ("&", "*", "!", "|", ">", "%", "@", "`")


class BeyondSubset(ValueError):
    """The text uses a part of YAML that is not read here."""


def flattened(text: str) -> dict[str, str]:
    """`outer.inner` → the scalar as text, lists joined by commas. Raises BeyondSubset with the line's number."""
    found: dict[str, str] = {}
    open_keys: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#") or stripped in ("---", "..."):
            continue
        indent = len(line) - len(line.lstrip(" "))
        if stripped.startswith("- ") or stripped == "-":
            while open_keys and open_keys[-1][0] > indent:
                open_keys.pop()
            name = ".".join(key for _, key in open_keys)
            found[name] = ",".join(part for part in (found.get(name), _scalar(stripped[1:].strip(), number)) if part)
            continue
        entry = KEY.fullmatch(stripped)
        if entry is None or line.startswith("\t"):
            raise BeyondSubset(f"line {number}")
        while open_keys and open_keys[-1][0] >= indent:
            open_keys.pop()
        open_keys.append((indent, _scalar(entry["key"], number)))
        value = entry["value"]
        if value is not None and not value.startswith("#"):
            found[".".join(key for _, key in open_keys)] = _scalar(value, number)
    return found


def _scalar(text: str, number: int) -> str:
    if text[:1] in ("'", '"'):
        end = text.find(text[0], 1)
        if end < 0:
            raise BeyondSubset(f"line {number}")
        return text[1:end]
    text = COMMENT.sub("", text).strip()
    if text.startswith("[") and text.endswith("]"):
        return ",".join(_scalar(part.strip(), number) for part in text[1:-1].split(",") if part.strip())
    if text == "{}":
        return ""
    if text.startswith(("{", "[", *BEYOND)):
        raise BeyondSubset(f"line {number}")
    return text
