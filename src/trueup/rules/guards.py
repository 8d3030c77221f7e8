"""Dynamo's guard texts, read: what changed so that a function had to be compiled again.

A reason looks like `0/3: self.layer_idx == 3  # return x * self.layer_idx  # model.py:27 in forward (HINT: ...)`. Since
torch 2.9 names are those of the source (`self.layer_idx`), before they are `L['self'].layer_idx`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Literal

import msgspec

from trueup.rules.expression import Expression
from trueup.schema.finding import Evidence
from trueup.schema.record import Compile, LimitHit, Recompile

Kind = Literal[
    "cache",
    "hyperparameter",
    "optimizer state",
    "parameter size",
    "size",
    "mode",
    "attribute",
    "state",
    "integer",
    "other",
]

_ENTRY = Expression(r"^\s*\d+/\d+:\s*")
_LOCAL = Expression(r"L\['(\w+)'\]")
_CACHE = Expression(r"past_key_values?|key_cache|value_cache|\bcache'?\]?\.layers\[|\.is_initialized\b|DynamicCache")
_HYPERPARAMETER = Expression(r"param_groups\[\d+\]\['\w+'\]")
_SIZE = Expression(
    r"tensor '(?P<source>.+?)' (?:size mismatch|stride mismatch at index \d+\. expected (?!1,)\d+, actual (?!1\b)\d)"
)
"""A stride other than 1 is a product of sizes; one that becomes 1, or was, is a transposed tensor."""
_SYMBOLIC_SIZE = Expression(r"(?P<source>\w[\w.\[\]']*)\.size\(\)\[\d+\]")
_MODE = Expression(r"requires_grad mismatch|grad_mode|inference_mode|\.training\b|__nn_module_guard_0|dispatch key set")
_VALUE = Expression(r"^(?P<source>[^=#]+?) == (?P<value>'[^']*'|[^\s#(]+)")
_LENGTH = Expression(r"^(?:not (?P<empty>[\w.\[\]']+)|len\((?P<source>.+?)\) [=!]= \d+)")
_ARGUMENTS = ("args", "kwargs")
"""How many arguments a wrapper was called with, as decorators share one code object: nothing that grows."""
_IDENTITY = Expression(r"___check_(?:obj|type)_id\((?P<source>[^,]+),")
_MUTABLE = Expression(
    r"(?:^|_)(?:steps?|count(?:er)?|calls|history|hist|epoch|iter(?:ation)?s?|seen|updates)(?:_|$)", re.I
)
_PER_LAYER = Expression(r"layer_?(idx|id|number|index)|block_?(idx|id)|depth|processor|\bidx\b|index$", re.I)
_OPTIMIZER = Expression(
    r"torch/optim|optim(izer)?s?[/.]|muon|dion|shampoo|newton_?schulz|zeropower|adam|lion|sgd\b", re.I
)


class Guard(msgspec.Struct, frozen=True):
    """A guard that failed."""

    kind: Kind
    source: str
    """The Python expression whose value changed."""
    text: str


def guard(reason: str) -> Guard:
    """Read one recompile reason."""
    text = _LOCAL.sub(r"\1", _ENTRY.sub("", reason.strip().splitlines()[0] if reason.strip() else "")).strip()
    condition = re.split(r"\s+#\s|\(HINT", text)[0].strip()
    if _HYPERPARAMETER.search(condition):
        return Guard("hyperparameter", condition.partition(" ==")[0], condition)
    if re.search(r"self\.state\[", condition):
        return Guard("optimizer state", "self.state", condition)
    if _CACHE.search(condition):
        return Guard("cache", condition.partition(" ==")[0], condition)
    if _MODE.search(condition):
        return Guard("mode", condition, condition)
    if size := _SIZE.search(condition) or _SYMBOLIC_SIZE.search(condition):
        parameter = "Guard failed on a parameter" in text or "_parameters[" in size["source"]
        return Guard("parameter size" if parameter else "size", size["source"], condition)
    return _value_guard(condition, static_integer="allow_unspec_int_on_nn_module" in text)


def _value_guard(condition: str, static_integer: bool) -> Guard:
    if length := _LENGTH.search(condition):
        source = length["source"] or length["empty"]
        return Guard("other" if source in _ARGUMENTS else "state", source, condition)
    if identity := _IDENTITY.search(condition):
        of_object = "." in identity["source"] and "__code__" not in identity["source"]
        return Guard("attribute" if of_object else "other", identity["source"], condition)
    value = _VALUE.search(condition)
    if value is None:
        return Guard("other", "", condition)
    source = value["source"].strip()
    name = re.split(r"[.\[]", source)[-1].strip("'\"]") or source
    if source.startswith("G[") or (_MUTABLE.search(name) and not _PER_LAYER.search(name)):
        return Guard("state", source, condition)
    if static_integer or "." in source.split("[")[0]:
        return Guard("attribute", source, condition)
    if re.fullmatch(r"-?\d+", value["value"]):
        return Guard("integer", source, condition)
    return Guard("other", source, condition)


class Storm(msgspec.Struct, frozen=True):
    """The recompiles of one compiled function for one kind of reason."""

    function: str
    recompiles: tuple[Recompile, ...]
    limit: LimitHit | None
    """The limit that this function reached, for this kind of reason."""

    @property
    def count(self) -> int:
        return sum(each.count for each in self.recompiles)

    @property
    def guards(self) -> tuple[Guard, ...]:
        return tuple(guard(each.reason) for each in self.recompiles)

    @property
    def sources(self) -> tuple[str, ...]:
        """The expressions that changed, each once, in the order seen."""
        return tuple(dict.fromkeys(each.source for each in self.guards))

    @property
    def steps(self) -> int | None:
        """In how many optimizer steps it recompiled; None when the steps were not recorded."""
        known = {each.step for each in self.recompiles if each.step is not None}
        return len(known) or None

    def evidence(self) -> tuple[Evidence, ...]:
        """Count, the last reason with its line, and the limit."""
        last = self.recompiles[-1] if self.recompiles else None
        seen = [Evidence(what=f"recompiles of {self.function}", value=self.count, at=last.at if last else None)]
        if last is not None:
            seen.append(Evidence(what="last reason", value=guard(last.reason).text, at=last.at))
        if self.limit is not None:
            seen.append(Evidence(what=f"{self.limit.limit} reached by", value=self.limit.function))
        return tuple(seen)


def storms(compile: Compile, *kinds: Kind, at_least: int = 1) -> tuple[Storm, ...]:
    """Functions with at least so many recompiles of these kinds, or that reached the limit by one; worst first."""
    by_function: dict[str, list[Recompile]] = defaultdict(list)
    for each in compile.recompiles:
        if guard(each.reason).kind in kinds:
            by_function[each.function or "a function"].append(each)
    limits = {each.function: each for each in compile.limits if _kind_of_limit(each, compile) in kinds}
    found = [
        Storm(function, tuple(by_function.get(function, ())), limits.get(function))
        for function in dict.fromkeys([*by_function, *limits])
    ]
    worst = sorted(found, key=lambda storm: (storm.limit is None, -storm.count))
    return tuple(storm for storm in worst if storm.limit is not None or storm.count >= at_least)


def _kind_of_limit(limit: LimitHit, compile: Compile) -> Kind:
    """The kind of the last guard before the limit: from its own text, else from the function's last recompile."""
    if limit.reason:
        return guard(limit.reason).kind
    of_function = [each.reason for each in compile.recompiles if each.function == limit.function]
    return guard(of_function[-1]).kind if of_function else "other"


def of_optimizer(storm: Storm) -> bool:
    """True when the compiled function belongs to an optimizer."""
    within = any(each.within == "optimizer step" for each in storm.recompiles)
    return within or optimizer_function(storm.function)


def optimizer_function(function: str) -> bool:
    """True when the name of a function, with its file, is that of an optimizer."""
    return _OPTIMIZER.search(function) is not None
