"""Where a setting stands in Python code: keywords of calls, keys of dicts and assignments to attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import libcst as cst

from trueup.edits.draft import Draft, literal
from trueup.edits.python_source import Source

GENERATING = frozenset({"generate", "GenerationConfig", "pipeline"})
"""Calls that do not train, and keep their settings."""


class Site:
    """One place at which a setting is given a value."""

    def __init__(self, source: Source, value: cst.BaseExpression) -> None:
        self.source = source
        self.value = value
        self.line = source.lines(value)[0]


def sites(sources: Iterable[Source], *names: str) -> list[Site]:
    """Every place at which a setting with one of these names is given a value."""
    return [Site(source, value) for source in sources for value in _values(source, names)]


def sites_with(sources: Iterable[Source], names: tuple[str, ...], matches: Callable[[object], bool]) -> list[Site]:
    """Those whose value is a literal that `matches`."""
    return [site for site in sites(sources, *names) if _is_literal(site.value) and matches(literal(site.value))]


def put(draft: Draft, found: Iterable[Site], value: str) -> bool:
    """Give all of them another value; False when there are none."""
    done = False
    for site in found:
        draft.of(site.source).change(site.value, lambda node: cst.parse_expression(value))
        done = True
    return done


def _values(source: Source, names: tuple[str, ...]) -> Iterable[cst.BaseExpression]:
    for call in source.calls:
        if _name(call.func) not in GENERATING:
            yield from (arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value in names)
    for element in source.nodes(cst.DictElement):
        if literal(element.key) in names:
            yield element.value
    for assign in source.nodes(cst.Assign):
        target = assign.targets[0].target
        if len(assign.targets) != 1 or not isinstance(target, cst.Attribute) or target.attr.value not in names:
            continue
        if "generation_config" not in source.code(target):
            yield assign.value


def _name(function: cst.BaseExpression) -> str:
    if isinstance(function, cst.Attribute):
        return function.attr.value
    return function.value if isinstance(function, cst.Name) else ""


def _is_literal(node: cst.CSTNode) -> bool:
    return not isinstance(literal(node), cst.CSTNode)
