"""Reading a Python command line: is it an interpreter, and does it shut the environment out?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

NAME = re.compile(r"(python|pypy)[\d.]*t?d?")
WITH_VALUE = "WX"
LAST = "cm"
ISOLATING = "IES"


def is_python(command: Sequence[str]) -> bool:
    """True when the command line starts a Python interpreter."""
    return bool(command) and NAME.fullmatch(PurePath(command[0]).name) is not None


def isolating_options(command: Sequence[str]) -> tuple[str, ...]:
    """Which of `-I`, `-E` and `-S` a Python command line has: with them, PYTHONPATH or sitecustomize is ignored."""
    found: list[str] = []
    words = iter(command[1:])
    for word in words:
        if not word.startswith("-") or word == "-" or word == "--":
            break
        if word.startswith("--"):
            if word == "--check-hash-based-pycs":
                next(words, None)
            continue
        for position, letter in enumerate(word[1:], 1):
            if letter in ISOLATING:
                found.append(f"-{letter}")
            if letter in LAST:
                return tuple(found)
            if letter in WITH_VALUE:
                if position == len(word) - 1:
                    next(words, None)
                break
    return tuple(found)
