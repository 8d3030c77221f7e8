"""Short forms of long texts, such as the message of an exception; the record keeps them whole."""

from __future__ import annotations

import re

ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
END_OF_SENTENCE = re.compile(r"(?<=[^\s.][.!?])\s+(?=[A-Z\"'`(\[])")
OPEN_ENDS = " ,;:.-"
"""What is not left before an ellipsis."""


def first_sentence(text: str, longest: int = 120) -> str:
    """The first sentence of the first line, cut at a word when it is longer."""
    line = _first_line(text)
    return at_a_word(END_OF_SENTENCE.split(line, maxsplit=1)[0].rstrip(" .:"), longest)


def first_line(text: str, longest: int = 160) -> str:
    """The first line, with an ellipsis where more follows."""
    line = _first_line(text)
    short = at_a_word(line, longest)
    return short if short != line or line == text.strip() else f"{line.rstrip(OPEN_ENDS)}{ELLIPSIS}"


def at_a_word(text: str, longest: int) -> str:
    """`text`, or as many of its words as fit into `longest` characters with an ellipsis."""
    if len(text) <= longest:
        return text
    kept = text[: longest - 1]
    words = kept if text[longest - 1].isspace() else kept.rsplit(None, 1)[0]
    return f"{(words if len(words) > longest // 2 else kept).rstrip(OPEN_ENDS)}{ELLIPSIS}"


def _first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "").strip()
