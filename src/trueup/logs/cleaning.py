"""What terminals, Markdown and JSON put around a line, taken off."""

from __future__ import annotations

import re

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links
    r"|\x1b[@-Z\\-_=>]"
    r"|\\(?:x1b|u001b|033|e)\[[0-9;]*m"  # colours inside a repr or JSON
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufeff\u200b]")
_NO_CONTROLS = dict.fromkeys((*range(9), 0x0B, 0x0C, *range(0x0E, 0x20), 0x7F))
"""The same for ASCII: an expression costs a hundred times as much on a line of zeros, as sparse files have them."""
_QUOTE = re.compile(r"^(?:>(?!>) ?)+(?!\s*File \")")
_PYTEST = re.compile(r"^E {3}(?=\s*\S)")
_BACKSPACES = re.compile(r"[^\x08]\x08")
_BROKEN_COLOUR = re.compile(r"^\[(?:\d{1,2};)*\d{1,2}m|\[0m$")


def clean(text: str) -> str:
    """The line without colours, control characters, Markdown quoting and the margin that pytest sets."""
    text = text.rstrip("\r\n")
    if "\x1b" in text or "\\" in text:
        text = _ESCAPES.sub("", text)
    if "\x08" in text:
        text = _BACKSPACES.sub("", text)
    if not text.isprintable():
        text = text.translate(_NO_CONTROLS) if text.isascii() else _CONTROLS.sub("", text)
    if text[:1] == ">":
        text = _QUOTE.sub("", text)
    elif text[:2] == "E ":
        text = _PYTEST.sub("", text)
    elif text[:1] == "[" or text[-4:] == "[0m":
        text = _BROKEN_COLOUR.sub("", text)  # copied from a viewer that dropped the escape character
    return text.rstrip()


_LINE_END_IN_STRING = re.compile(r"(?:\\r)?\\n")
_TRACEBACK = re.compile(r"(?:Exception Group )?Traceback \(most recent call last\)")
_CLOSING = re.compile(r"\s*['\"]+[)}\], ]*$")
_FOLDED_TRACEBACK = re.compile(r"last\):(?:\\r)?\\+n|\\+n {2,}File ")


def unfolded(text: str) -> list[str]:
    r"""The lines of a text inside a text: a traceback in a repr or JSON string, with `\n` for its line ends."""
    if "\\n" not in text or not _FOLDED_TRACEBACK.search(text):
        return [text]
    while "\\\\n" in text:  # a repr inside a repr doubles its backslashes
        text = text.replace("\\\\", "\\")
    opening = _TRACEBACK.search(text)
    parts = [text[: opening.start()], text[opening.start() :]] if opening and opening.start() else [text]
    lines = [line for part in parts for line in _LINE_END_IN_STRING.split(part)]
    if _CLOSING.match(lines[-1]):
        lines.pop()
    return [line.replace('\\"', '"').replace("\\'", "'").replace("\\t", "\t").rstrip() for line in lines]
