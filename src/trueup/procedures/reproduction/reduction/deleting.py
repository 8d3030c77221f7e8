"""Statements that the fault does not need."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst

from trueup.procedures.reproduction.reduction.source import Statement, edited, parameters, statements, with_arguments
from trueup.procedures.reproduction.reduction.tidying import without_unused
from trueup.procedures.reproduction.shrinking import fewest

PARTS = 4
"""Of which one at a time is left out first: more than a quarter of a script is seldom of no use."""


def fewest_statements(text: str, does: Callable[[str], bool]) -> str:
    """The script with as few statements as `does`; what reads a name that nothing makes any more goes with it.

    `does` is asked of no text twice. It may raise to stop.
    """
    tree = cst.parse_module(text)
    every = with_arguments(tree, statements(tree))
    asked = [each for each in every if not isinstance(each.node, cst.Arg) or _is_spread(each, tree)]
    given = parameters(text)
    known: dict[str, bool] = {text: True}

    def left(kept: Sequence[Statement]) -> str:
        out = set(asked).difference(kept)
        gone = closed(every, [each for each in every if each in out], given)
        return without_unused(edited(tree, [each.node for each in gone]).code)

    def without_others(kept: Sequence[Statement]) -> bool:
        candidate = left(kept)
        if candidate not in known:
            known[candidate] = does(candidate)
        return known[candidate]

    return left(fewest(asked, without_others, PARTS))


def _is_spread(argument: Statement, tree: cst.Module) -> bool:
    """Whether the line of an argument takes several in the text."""
    return "\n" in tree.code_for_node(argument.inside[-1]).strip()


def closed(every: Sequence[Statement], gone: Sequence[Statement], given: frozenset[str]) -> list[Statement]:
    """`gone` with what it holds, and with every statement that reads a name which only they made."""
    left_out: set[cst.CSTNode] = {each.node for each in gone}
    makers: dict[str, list[Statement]] = {}
    for each in every:
        for name in each.makes:
            makers.setdefault(name, []).append(each)
    changed = True
    while changed:
        changed = False
        for each in every:
            if each.node in left_out:
                continue
            if left_out.intersection(each.inside) or _lacks(each, makers, left_out, given):
                left_out.add(each.node)
                changed = True
    return [each for each in every if each.node in left_out]


def _lacks(
    statement: Statement,
    makers: dict[str, list[Statement]],
    left_out: set[cst.CSTNode],
    given: frozenset[str],
) -> bool:
    for name in statement.own - given:
        made = [each for each in makers.get(name, ()) if each is not statement]
        if made and all(each.node in left_out or left_out.intersection(each.inside) for each in made):
            return True
    return False
