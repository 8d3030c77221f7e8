"""Text that came from a user's process, made safe to show: one line, no terminal sequences, no control characters."""

from __future__ import annotations

import re

TERMINAL_SEQUENCE = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # operating system commands: titles, hyperlinks
    r"|[\x1b\x9b][\[()#;?]*[0-9;:?]*[ -/]*[@-~]"  # colours, cursor moves
)
BREAKS = re.compile(r"[\t\r\n\v\f\x85\u2028\u2029]+")
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
"""C0 and C1 controls, and the invisible and direction-changing characters that make text read as what it is not."""

LONE_SURROGATES = re.compile(r"[\ud800-\udfff]")
LONGEST = 2000


def plain(text: object, longest: int = LONGEST) -> str:
    """`str(text)` in one line that can do nothing but be read; longer text is cut and says so."""
    line = BREAKS.sub(" ", TERMINAL_SEQUENCE.sub("", str(text)))
    line = CONTROLS.sub("\N{REPLACEMENT CHARACTER}", line)
    line = LONE_SURROGATES.sub("\N{REPLACEMENT CHARACTER}", line).strip()
    if len(line) > longest:
        return f"{line[:longest]}… ({len(line) - longest} more characters)"
    return line


def readable(line: str) -> str:
    """One line of a file, with its indentation, that can do nothing but be read."""
    start = len(line) - len(line.lstrip(" +-"))
    return line[:start] + plain(line[start:])
