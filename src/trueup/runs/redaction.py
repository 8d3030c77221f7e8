"""Secrets out of what a record keeps: command lines, environment variables, texts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:  # the job imports it as the first, since nothing but `bootstrap` is on its path
    from trueup_instrument.secret_texts import HEXADECIMAL, HIDDEN, LOOKS_SECRET, is_secret_name, text_without_secrets
else:
    from trueup.instrument.bootstrap.trueup_instrument.secret_texts import (
        HEXADECIMAL,
        HIDDEN,
        LOOKS_SECRET,
        is_secret_name,
        text_without_secrets,
    )


def redacted_text(text: str, home: str | None = None) -> str:
    """`text` without tokens, passwords and credentials, and with the home folder written `~`."""
    return without_home(text_without_secrets(text), home)


def redacted_command(command: Sequence[str], home: str | None = None) -> tuple[str, ...]:
    """A command line whose words are redacted, also the word that follows `--api-key`."""
    words: list[str] = []
    before = ""
    for word in command:
        words.append(HIDDEN if _follows_its_name(before, word) else redacted_text(word, home))
        before = word
    return tuple(words)


def redacted_variables(variables: Mapping[str, Any], home: str | None = None) -> dict[str, str]:
    """Environment variables whose secret values are hidden."""
    return {
        name: HIDDEN if is_secret_name(name) and value else redacted_text(str(value), home)
        for name, value in variables.items()
    }


def redacted(value: Any, home: str | None = None) -> Any:
    """The same for values of any depth: texts are redacted, and so are the values under names of secrets."""
    home = str(Path.home()) if home is None else home
    if isinstance(value, str):
        return redacted_text(value, home)
    if isinstance(value, msgspec.Struct):
        return type(value)(**redacted(msgspec.structs.asdict(value), home))
    if isinstance(value, Mapping):
        return {
            key: HIDDEN if isinstance(item, str) and item and is_secret_name(str(key)) else redacted(item, home)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return type(value)(redacted(item, home) for item in value)
    return value


def without_home(text: str, home: str | None = None) -> str:
    """`text` with the user's home folder written `~`."""
    home = (home if home is not None else str(Path.home())).rstrip("/")
    if not home or home not in text:
        return text
    return re.sub(rf"{re.escape(home)}(?=$|[/\s:;,'\")\]])", "~", text)


def _follows_its_name(before: str, word: str) -> bool:
    """A word of a command line that is the value of the word in front of it."""
    if before == "login":
        return bool(HEXADECIMAL.fullmatch(word))
    if before.startswith("-"):
        return "=" not in before and is_secret_name(before) and not word.startswith("-")
    return before.replace("_", "").isalnum() and is_secret_name(before) and bool(LOOKS_SECRET.fullmatch(word))
