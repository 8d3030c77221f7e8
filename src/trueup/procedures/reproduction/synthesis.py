"""A reproduction written from the record alone."""

from __future__ import annotations

from trueup.procedures.reproduction import simplifying
from trueup.procedures.reproduction.budget import Checked
from trueup.procedures.reproduction.candidate import Candidate, OutOfBudget
from trueup.procedures.reproduction.judging import RAISED
from trueup.procedures.reproduction.reading import recipes
from trueup.procedures.reproduction.recipe import Recipe
from trueup.procedures.reproduction.shrinking import fewest
from trueup.procedures.reproduction.simplifying import Simplification
from trueup.procedures.reproduction.writing import candidate
from trueup.schema.bisection import Bisection


def synthesised(bisection: Bisection, checks: Checked, title: str) -> tuple[list[Candidate], str]:
    """Scripts that fail, the smallest first, the last one of them cured by each layer; else the reason why none does.

    Raises OutOfBudget before one is found.
    """
    assert bisection.record is not None
    assert bisection.signature is not None
    reason = "no script can be written from the record"
    fullest = recipes(bisection.record, bisection.minimal, bisection.signature)
    every = [each for full in fullest for each in (simplifying.lean(full), full)]
    for recipe in sorted(every, key=lambda each: (each.sign is None, each.clip)):
        full = candidate(recipe, title)
        outcome, why = checks.observed(full)
        if outcome != "fails":
            reason = f"a small {recipe.model or 'model in plain torch'} does not fail in the same way: {why}"
            continue
        left = next((layer for layer in bisection.minimal if not checks.passes(full, layer)), None)
        if left is None:
            return [_smallest(recipe, checks, title, bisection.signature.kind in RAISED), full], ""
        reason = f"a small script is not well without {left}"
    return [], reason


def _smallest(recipe: Recipe, checks: Checked, title: str, raises: bool) -> Candidate:
    """The failing recipe with as many simplifications as leave the fault, as far as the time goes."""
    every = simplifying.of(recipe, raises)
    best = candidate(recipe, title)

    def fails(left: list[Simplification]) -> bool:
        nonlocal best
        smaller = recipe
        for change in every:
            if change not in left:
                smaller = change(smaller)
        tried = candidate(smaller, title)
        if not checks.fails(tried):
            return False
        best = tried
        return True

    try:
        fewest(every, fails)
    except OutOfBudget:
        pass
    return best
