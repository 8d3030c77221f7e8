"""Unified diffs of one file: made of two texts, and applied, several at once, to the text that they were made of."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from trueup.schema.fixing import Edit

if TYPE_CHECKING:  # the job imports it as the first, since nothing but `bootstrap` is on its path
    from trueup_instrument.secret_texts import text_without_secrets
else:
    from trueup.instrument.bootstrap.trueup_instrument.secret_texts import text_without_secrets

HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")
NO_NEWLINE = "\\ No newline at end of file"


class ConflictError(ValueError):
    """Two edits change the same lines, or the file is not the one that they were made of; the message says which."""


class Replacement(msgspec.Struct, frozen=True, order=True):
    """Lines `start` to `end` of a file, counted from 0 and without the last, and what stands there instead."""

    start: int
    end: int
    lines: tuple[str, ...]


def edit(path: str, before: str, after: str) -> Edit | None:
    """The edit that makes `after` of `before`. `path` is relative to the job's folder.

    None when they are the same, or a changed line holds a secret, for it is printed. Context that does is left out.
    """
    for context in (3, 0):
        lines = difflib.unified_diff(_lines(before), _lines(after), f"a/{path}", f"b/{path}", n=context)
        text = "".join(line if line.endswith("\n") else f"{line}\n{NO_NEWLINE}\n" for line in lines)
        if not text:
            return None
        if text_without_secrets(text) == text:
            return Edit(path=path, diff=text)
    return None


def merged(text: str, edits: Iterable[Edit]) -> str:
    """`text` with all `edits`, each of which was made of `text`; what two of them say alike is done once.

    What several insert at one place stands one after the other.

    Raises ConflictError when two change the same lines differently, or one was made of another text.
    """
    old = _lines(text)
    wanted: list[Replacement] = []
    for each in edits:
        for replacement in _replacements(each.diff, old):
            if replacement not in wanted:
                wanted.append(replacement)
    wanted.sort()
    new: list[str] = []
    done = 0
    for replacement in wanted:
        if replacement.start < done:
            raise ConflictError(f"two edits change line {replacement.start + 1}")
        new += [*old[done : replacement.start], *replacement.lines]
        done = replacement.end
    return "".join([*new, *old[done:]])


def _replacements(diff: str, old: Sequence[str]) -> list[Replacement]:
    """What a diff changes, without its context; raises ConflictError where the context is not that of `old`."""
    found: list[Replacement] = []
    position = 0
    for line in _joined(diff):
        if line.startswith(("--- ", "+++ ")) and not found and not position:
            continue
        hunk = HUNK.match(line)
        if hunk is not None:
            count = int(hunk[2]) if hunk[2] is not None else 1
            position = int(hunk[1]) - (1 if count else 0)
            found.append(Replacement(position, position, ()))
            continue
        last, text = found[-1], line[1:]
        if line.startswith("+"):
            found[-1] = Replacement(last.start, last.end, (*last.lines, text))
            continue
        if position >= len(old) or old[position] != text:
            raise ConflictError(f"line {position + 1} is not the one that the edit was made of")
        position += 1
        if line.startswith("-"):
            found[-1] = Replacement(last.start, position, last.lines)
        elif last.start != last.end or last.lines:
            found.append(Replacement(position, position, ()))
        else:
            found[-1] = Replacement(position, position, ())
    return [each for each in found if each.start != each.end or each.lines]


def _joined(diff: str) -> list[str]:
    """The lines of a diff; one that ends its file without a newline comes without it."""
    lines: list[str] = []
    for line in _lines(diff):
        if line.rstrip("\n") == NO_NEWLINE:
            lines[-1] = lines[-1].rstrip("\n")
        else:
            lines.append(line)
    return lines


def _lines(text: str) -> list[str]:
    """Lines with their ends; a form feed or a lone carriage return ends none."""
    return [line for line in re.split(r"(?<=\n)", text) if line]
