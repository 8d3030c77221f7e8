"""Secrets out of texts: messages of exceptions, command lines, logs.

Inside the job it is loaded when there is a text to clean; trueup itself cleans records and reports with it.
"""

from __future__ import annotations

import re
from functools import lru_cache

HIDDEN = "***"

SECRET_PART = re.compile(
    r"passw(?:or)?d|passphrase|secret|credential|api[_-]?key|auth[_-]?token|access[_-]?token|private[_-]?key",
    re.IGNORECASE,
)
"""What makes a name one of a secret wherever it stands in it."""

SECRET_WORDS = frozenset({"bearer", "cookie", "pat", "dsn", "authorization"})

_OF_LANGUAGE_MODELS = """
    max min num pad bos eos unk sep cls mask stop image special per first last next new length count audio video vision
    start end begin boi eoi decoder assistant query value attention attn padding position
"""
_OF_DATA = "partition sort primary foreign text input output label prompt target dataset column field state dict"
_OF_PROGRAMS = "missing unexpected extra cache dispatch guard hash group layer param parameter module weight path file"
NOT_OF_ACCESS = frozenset(f"{_OF_LANGUAGE_MODELS} {_OF_DATA} {_OF_PROGRAMS}".split())
"""Words that make of `token` or `key` what it means in models, data sets and programs: `pad_token`, `text_key`."""

AMBIGUOUS = frozenset({"key", "keys", "token", "auth", "credential", "credentials"})
"""Names that texts use for other things, too: under one of them stands a secret when it looks like one."""

NO_SECRET = frozenset(
    ["true", "false", "none", "null", "str", "int", "float", "bool", "bytes", "any", "bearer", "basic", "token"]
)
"""Values, in lower case: switches, types in a signature, the scheme in front of what AUTHORIZATION hides."""

SECRET_VALUES = re.compile(
    r"""
    (?<![A-Za-z0-9])(?:
      hf_[A-Za-z0-9]{16,}                              # Hugging Face
    | sk-[A-Za-z0-9_-]{16,}                            # OpenAI, Anthropic and alike
    | (?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,} | github_pat_[A-Za-z0-9_]{20,}
    | glpat-[A-Za-z0-9_-]{16,}
    | (?:AKIA|ASIA)[A-Z0-9]{16}                        # AWS key ids
    | xox[abeprs]-[A-Za-z0-9-]{10,}                    # Slack
    | AIza[A-Za-z0-9_-]{30,}                           # Google
    | pypi-[A-Za-z0-9_-]{30,}
    | r8_[A-Za-z0-9]{16,}                              # Replicate
    | wandb_v1_[A-Za-z0-9_]{20,}
    | eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+   # JSON web tokens
    | nvapi-[A-Za-z0-9_-]{16,}
    )
    """,
    re.VERBOSE,
)
SHORTEST_VALUE = 15
"""Characters; no secret that is told by its own form is shorter."""
SEPARATED = re.compile(r"[\s=:]")
"""What stands in every other one, between its name and its value."""
HEXADECIMAL = re.compile(r"[0-9a-f]{40}")
LOGIN = re.compile(
    r"(?P<head>\b(?:wandb|login|api[ _-]?key)\b(?P<between>[^\n]{0,40}?)(?<!\w))[0-9a-f]{40}(?!\w)", re.IGNORECASE
)
"""The keys of wandb look like the names of commits: what is said in front of them tells them apart."""
OF_A_COMMIT = re.compile(r"commit|revision|sha|git|hash|blob|snapshot", re.IGNORECASE)
URL_CREDENTIALS = re.compile(r"(?P<scheme>(?<![a-z0-9+.-])[a-z][a-z0-9+.-]*://)[^/\s'\"]+@", re.IGNORECASE)
URL_PARAMETER = re.compile(
    r"(?P<name>[?&](?:[\w.-]*(?:token|key|secret|signature|password)|sig|X-Amz-[A-Za-z-]+)=)[^&\s'\"]+", re.IGNORECASE
)
AUTHORIZATION = re.compile(r"(?P<head>\b(?:Bearer|Basic)\s+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
VALUE = r"""(?:
      "(?:[^"\\\n]|\\.)*"? | '(?:[^'\\\n]|\\.)*'?          # in quotes; a text may be cut inside of them
    | \\+"[^"\\\n]*(?:\\+")? | \\+'[^'\\\n]*(?:\\+')?      # in a text inside a text
    | [^\s,;&"'\\\[{(<:][^\s,;&"'\\]*?(?=[)}\]>]{0,4}(?:[\s,;&"'\\]|$))
)"""
NAMED = re.compile(
    rf"""(?<![\w.-])(?P<name>-{{0,2}}\w[\w.-]*)
    (?P<sign>(?:\\*["'])?(?:[ \t]*=(?![=>~])[ \t]*|[ \t]*:[ \t]*))
    (?P<value>{VALUE})""",
    re.VERBOSE,
)
"""`name=value`, `name: value`, `'name': 'value'`, also with escaped quotes."""
OPTION = re.compile(rf"(?P<name>(?<!\S)--[\w-]+)(?P<sign>\s+)(?P<value>(?!-){VALUE})", re.VERBOSE)
VARIABLE = re.compile(r"(?<![\w.-])(?P<name>[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)(?P<sign>[ \t]+)(?P<value>[^\s\"',;]+)")
"""`AWS_SECRET_ACCESS_KEY wJalrX...`, as tables print variables."""
PROSE = frozenset(
    ["is", "are", "was", "has", "or", "and", "to", "in", "for", "if", "with", "option", "flag", "argument"]
)
"""What follows an option that is only spoken of."""
LOOKS_SECRET = re.compile(
    r"(?=[^\d\s]*\d)(?=[^A-Za-z]*[A-Za-z])[\w+/=~!@#$%^*-]{8,}|(?=.*[a-z])(?=.*[A-Z])[\w+/=-]{20,}"
)


@lru_cache(maxsize=1024)
def is_secret_name(name: str) -> bool:
    """True when a variable or option of this name holds a secret."""
    words = re.split(r"[_\-.]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).strip("-").lower())
    if SECRET_PART.search(name) or not SECRET_WORDS.isdisjoint(words) or words[-1] == "auth":
        return True
    for position, word in enumerate(words):
        followed_by = words[position + 1 :]
        if word in ("token", "key", "keys") and followed_by in ([], ["id"], ["value"]):
            return NOT_OF_ACCESS.isdisjoint(words) and not (word == "token" and followed_by == ["id"])
    return False


def text_without_secrets(text: str) -> str:
    """`text` with `***` in the place of tokens, passwords and credentials."""
    if len(text) < SHORTEST_VALUE and not SEPARATED.search(text):
        return text
    text = URL_CREDENTIALS.sub(rf"\g<scheme>{HIDDEN}@", text)
    text = URL_PARAMETER.sub(rf"\g<name>{HIDDEN}", text)
    text = AUTHORIZATION.sub(rf"\g<head>{HIDDEN}", text)
    text = SECRET_VALUES.sub(HIDDEN, text)
    text = LOGIN.sub(lambda found: found[0] if OF_A_COMMIT.search(found["between"]) else found["head"] + HIDDEN, text)
    text = NAMED.sub(_of_name, text)
    text = OPTION.sub(_of_option, text)
    return VARIABLE.sub(_of_variable, text)


def _of_name(found: re.Match[str]) -> str:
    name, value = found["name"], found["value"]
    bare = value.strip("\\\"'")
    if not is_secret_name(name) or not bare or bare == HIDDEN or bare.lower() in NO_SECRET:
        return found[0]
    if bare == value and _is_expression(value):
        return found[0]
    unclear = name.lower() in ("key", "keys") or (name.lower() in AMBIGUOUS and found["sign"] != "=")
    if unclear and not LOOKS_SECRET.fullmatch(bare):
        return found[0]
    opened = re.match(r"\\*[\"']", value)
    return f"{name}{found['sign']}{_quoted(opened[0], value) if opened else HIDDEN}"


def _quoted(quote: str, value: str) -> str:
    return quote + HIDDEN + (quote if len(value) > len(quote) and value.endswith(quote) else "")


def _is_expression(value: str) -> bool:
    """`args.token`, `os.environ`, `Optional[str]`: the code of a traceback, no secret itself."""
    if value.startswith(("os.environ", "os.getenv", "getpass", "Optional[", "Union[")):
        return True
    if value.isidentifier():
        return is_secret_name(value)
    return bool(re.fullmatch(r"(?:args|self|cfg|config)\.[\w.]+", value))


def _of_option(found: re.Match[str]) -> str:
    hidden = is_secret_name(found["name"]) and found["value"] not in PROSE
    return f"{found['name']}{found['sign']}{HIDDEN}" if hidden else found[0]


def _of_variable(found: re.Match[str]) -> str:
    hidden = is_secret_name(found["name"]) and LOOKS_SECRET.fullmatch(found["value"])
    return f"{found['name']}{found['sign']}{HIDDEN}" if hidden else found[0]
