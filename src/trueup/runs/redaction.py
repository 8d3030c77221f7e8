"""Secrets out of what a record keeps: command lines, environment variables, texts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

HIDDEN = "***"

SECRET_PART = re.compile(r"passw(?:or)?d|passphrase|secret|credential|apikey|authtoken", re.IGNORECASE)
"""What makes a name one of a secret wherever it stands in it."""

SECRET_WORDS = frozenset({"bearer", "cookie", "pat", "dsn", "authorization"})

_OF_LANGUAGE_MODELS = "max min num pad bos eos unk sep cls mask stop image special per first last next new length count"
_OF_DATA = "partition sort primary foreign text input output label prompt target dataset column field state dict"
NOT_OF_ACCESS = frozenset(f"{_OF_LANGUAGE_MODELS} {_OF_DATA}".split())
"""Words that make of `token` or `key` what it means in language models and data sets, `pad_token`, `text_key`."""

SECRET_VALUES = re.compile(
    r"""
    (?<![A-Za-z0-9])(?:
      hf_[A-Za-z0-9]{16,}                              # Hugging Face
    | sk-[A-Za-z0-9_-]{16,}                            # OpenAI, Anthropic and alike
    | (?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,} | github_pat_[A-Za-z0-9_]{20,}
    | glpat-[A-Za-z0-9_-]{16,}
    | (?:AKIA|ASIA)[A-Z0-9]{16}                        # AWS key ids
    | xox[abprs]-[A-Za-z0-9-]{10,}                     # Slack
    | AIza[A-Za-z0-9_-]{30,}                           # Google
    | pypi-[A-Za-z0-9_-]{30,}
    | eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+   # JSON web tokens
    | nvapi-[A-Za-z0-9_-]{16,}
    )
    """,
    re.VERBOSE,
)
URL_CREDENTIALS = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)[^/\s'\"]+@", re.IGNORECASE)
URL_PARAMETER = re.compile(
    r"(?P<name>[?&](?:[\w.-]*(?:token|key|secret|signature|password)|sig|X-Amz-[A-Za-z-]+)=)[^&\s'\"]+", re.IGNORECASE
)
AUTHORIZATION = re.compile(r"(?P<head>\b(?:Bearer|Basic)\s+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
ASSIGNMENT = re.compile(r"(?P<name>--?[\w-]+|\b[A-Za-z_][\w.-]*)=(?P<value>\"[^\"]*\"|'[^']*'|[^\s,;&\"']+)")
OPTION = re.compile(r"(?P<name>(?<!\S)--[\w-]+)(?P<space>\s+)(?P<value>[^\s-]\S*)")


@lru_cache(maxsize=1024)
def is_secret_name(name: str) -> bool:
    """True when a variable or option of this name holds a secret."""
    words = re.split(r"[_\-.]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).strip("-").lower())
    if SECRET_PART.search(name) or not SECRET_WORDS.isdisjoint(words):
        return True
    for position, word in enumerate(words):
        followed_by = words[position + 1 :]
        if word in ("token", "key", "keys") and followed_by in ([], ["id"], ["value"]):
            return NOT_OF_ACCESS.isdisjoint(words) and not (word == "token" and followed_by == ["id"])
    return False


def redacted_text(text: str, home: str | None = None) -> str:
    """`text` without tokens, passwords and credentials, and with the home folder written `~`."""
    text = URL_CREDENTIALS.sub(rf"\g<scheme>{HIDDEN}@", text)
    text = URL_PARAMETER.sub(rf"\g<name>{HIDDEN}", text)
    text = AUTHORIZATION.sub(rf"\g<head>{HIDDEN}", text)
    text = SECRET_VALUES.sub(HIDDEN, text)
    text = ASSIGNMENT.sub(lambda found: _hidden_if_secret(found, "="), text)
    text = OPTION.sub(lambda found: _hidden_if_secret(found, found["space"]), text)
    return without_home(text, home)


def redacted_command(command: Sequence[str], home: str | None = None) -> tuple[str, ...]:
    """A command line whose words are redacted, also the word that follows `--api-key`."""
    words: list[str] = []
    hide_next = False
    for word in command:
        words.append(HIDDEN if hide_next and not word.startswith("-") else redacted_text(word, home))
        hide_next = word.startswith("-") and "=" not in word and is_secret_name(word)
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


def _hidden_if_secret(found: re.Match[str], sign: str) -> str:
    return f"{found['name']}{sign}{HIDDEN}" if is_secret_name(found["name"]) else found[0]
