"""A regular expression that is compiled when it is first needed.

The modules that rules share hold dozens of them; `doctor` imports those modules and searches with few.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any


class Expression:
    """As `re.compile(pattern, flags)`, which raises re.error at the first use instead."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self.pattern = pattern
        self.flags = flags

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """For loops that search millions of lines."""
        return re.compile(self.pattern, self.flags)

    def search(self, text: str) -> re.Match[str] | None:
        return self.compiled.search(text)

    def match(self, text: str, start: int = 0) -> re.Match[str] | None:
        return self.compiled.match(text, start)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        return self.compiled.fullmatch(text)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        return self.compiled.finditer(text)

    def findall(self, text: str) -> list[Any]:
        return self.compiled.findall(text)

    def sub(self, replacement: str, text: str) -> str:
        return self.compiled.sub(replacement, text)
