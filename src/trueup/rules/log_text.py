"""Text as a job prints it, compared with text as a rule tells it.

Both sides are brought to one form first: quotation marks go, since terminals, Markdown and releases disagree about
them, and white space is collapsed, a line break staying one. What a rule writes as a space may then be a line break.
"""

from __future__ import annotations

import re
from functools import cache

import msgspec

QUOTES = str.maketrans("", "", "`'\"\u2018\u2019\u201c\u201d")
MARGIN = re.compile(r"\n[ \t]*(?:[>|\u2502]|E(?=[ \t]{2}))[ \t]*")
"""What quoting, tables and pytest put in front of a line."""

ESCAPE = re.compile(r"\\(?=[`'\"_*])")
"""What Markdown and JSON put in front of a character that means something to them."""

BREAK = re.compile(r"[ \t\f\v\r]*\n\s*")
BLANK = re.compile(r"[ \t\f\v\r\xa0]+")
PLACEHOLDER = re.compile(r"<[a-z][a-z_0-9]*>")
VARIABLE_PART = r"[^\n]{1,400}?"
WORD = re.compile(r"\w+")
OPEN_END = re.compile(r"(?:_|\W)$")
"""A text that ends so may go on in the same word, or in another: `tmp.pid_`, `expected requires_grad=`."""

LONGEST = 40_000
"""Characters of one text that are compared; of a longer one the first and the last half of that."""


def normal(text: str) -> str:
    """The form in which texts are compared."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]}\n{text[-LONGEST // 2 :]}"
    if "&" in text:
        text = unescaped(text)
    if "\\" in text:
        text = ESCAPE.sub("", text)
    text = MARGIN.sub("\n", text)
    return BLANK.sub(" ", BREAK.sub("\n", text.translate(QUOTES))).strip()


def unescaped(text: str) -> str:
    """Text of a web page as it was before it became one; the table of all characters is loaded when there is a use."""
    import html

    return html.unescape(text)


class Pattern(msgspec.Struct, frozen=True):
    """A text of a rule, ready to be looked for."""

    text: str
    expression: re.Pattern[str]
    anchor: str | None
    """A word that every place where it fits must hold; None where no whole word is certain."""
    weight: int
    """Number of literal characters: the longer, the more specific."""

    def search(self, normal_text: str) -> re.Match[str] | None:
        """Where it stands in a text in normal form."""
        return self.expression.search(normal_text)


@cache
def pattern(text: str) -> Pattern:
    """`<lower_case>` stands for a part of one line; both ends are ends of words."""
    literals = PLACEHOLDER.split(" ".join(text.translate(QUOTES).split()))
    body = VARIABLE_PART.join(re.escape(part).replace("\\ ", "[ \\n]") for part in literals)
    before = r"(?<!\w)(?<!\w-)" if WORD.match(literals[0]) else ""
    after = "" if OPEN_END.search(literals[-1]) else r"(?!\w|-\w)"
    return Pattern(
        text=text,
        expression=re.compile(before + body + after),
        anchor=_anchor(literals),
        weight=sum(len(part) for part in literals),
    )


def _anchor(literals: list[str]) -> str | None:
    """The longest word that no placeholder touches."""
    words = []
    for position, literal in enumerate(literals):
        for found in WORD.finditer(literal):
            open_before = found.start() == 0 and position > 0
            open_after = found.end() == len(literal) and (position < len(literals) - 1 or found.group()[-1] == "_")
            if not open_before and not open_after:
                words.append(found.group())
    return max(words, key=len, default=None)
