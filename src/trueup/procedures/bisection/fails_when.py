"""`--fails-when`: the fault that is looked for, in a word or two."""

from __future__ import annotations

import math
import re

from trueup.procedures.bisection.oracle import COVERAGE
from trueup.rules import UnknownRuleError, rule
from trueup.schema.bisection import Signature

FORMS = (
    "error[:TEXT]",
    "exit[:CODE]",
    "hang",
    "oom",
    "nan",
    "loss[>DIFFERENCE]",
    "slower>TIMES",
    "LAYER<SHARE",
    "RULE",
)
"""Ways to write a fault; RULE is an id such as `compile/recompile-per-layer-attribute`."""
_BOUND = re.compile(r"(?P<what>[a-z]+)\s*(?P<sign>[<>])\s*(?P<value>[\d.eE+-]+)\s*(?P<percent>%?)")
_RULE = re.compile(r"[a-z]+/[a-z0-9-]+")


class FaultError(ValueError):
    """A text that names no fault; the message says what does."""


def signature_from(text: str) -> Signature:
    """The signature of a fault as `--fails-when` takes it: one of FORMS. Raises FaultError."""
    word, _, rest = (part.strip() for part in text.strip().partition(":"))
    if word == "error":
        return Signature(kind="exception", text=rest, given=True)
    if word == "exit":
        if rest and not (rest.isdecimal() and 0 < int(rest) < 256):
            raise FaultError(f"{text!r}: a process that fails ends with a code from 1 to 255")
        told = f"it ends with exit code {int(rest)}" if rest else "it does not end well"
        return Signature(kind="exit", text=told, code=int(rest) if rest else None, given=True)
    if not rest and word in _PLAIN:
        return _PLAIN[word]
    if _RULE.fullmatch(text.strip()):
        return _finding(text.strip())
    bound = _BOUND.fullmatch(text.strip())
    if bound is not None and (
        found := _bounded(bound["what"], bound["sign"], _number(bound["value"], text), bound["percent"])
    ):
        return found
    raise FaultError(f"{text!r} names no fault; write one of {', '.join(FORMS)}")


def _finding(name: str) -> Signature:
    try:
        found = rule(name)
    except UnknownRuleError as error:
        raise FaultError(f"{error}; `trueup rules` lists them all") from None
    return Signature(kind="finding", text=found.id, rule=found.id, given=True)


def _bounded(what: str, sign: str, value: float, percent: str) -> Signature | None:
    if (what, sign) == ("loss", ">"):
        told = f"losses differ from those with all layers off by more than {value:g} of their size"
        return Signature(kind="loss", text=told, threshold=value, given=True)
    if (what, sign) == ("slower", ">"):
        told = f"a step takes more than {value:g} times as long as with all layers off"
        return Signature(kind="slow", text=told, threshold=value, given=True)
    if what in COVERAGE and sign == "<":
        share = value / 100 if percent or value > 1 else value
        if not 0 < share <= 1:
            raise FaultError(f"{what}<{value:g}{percent}: a share of the model is above 0 and at most 100 %")
        told = f"{what} reaches less than {share * 100:g} % of the model"
        return Signature(kind="coverage", text=told, layer=what, threshold=share, given=True)
    return None


def _number(value: str, text: str) -> float:
    try:
        number = float(value)
    except ValueError:
        raise FaultError(f"{text!r}: {value} is no number") from None
    if not 0 < number < math.inf:
        raise FaultError(f"{text!r}: {value} is not above 0")
    return number


_PLAIN = {
    "hang": Signature(kind="hang", text="the job hangs", given=True),
    "oom": Signature(kind="memory", text="the job runs out of memory", given=True),
    "nan": Signature(kind="not finite", text="a loss is not finite", given=True),
    "loss": Signature(kind="loss", text="losses are not those with all layers off", given=True),
}
