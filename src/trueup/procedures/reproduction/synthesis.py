"""A reproduction written from the record alone."""

from __future__ import annotations

from trueup.procedures.reproduction import simplifying
from trueup.procedures.reproduction.budget import Budget, Checked
from trueup.procedures.reproduction.candidate import Candidate, OutOfBudget
from trueup.procedures.reproduction.judging import RAISED
from trueup.procedures.reproduction.reading import recipes
from trueup.procedures.reproduction.recipe import Recipe
from trueup.procedures.reproduction.shrinking import fewest
from trueup.procedures.reproduction.simplifying import Simplification
from trueup.procedures.reproduction.writing import candidate
from trueup.schema.bisection import Bisection


def synthesised(bisection: Bisection, checks: Checked, title: str, whole: Budget) -> tuple[list[Candidate], str]:
    """Scripts that fail, the smallest first, the last one of them cured by each layer; else the reason why none does.

    Raises OutOfBudget before one is found; to make it smaller it has the `whole` budget.
    """
    assert bisection.record is not None
    assert bisection.signature is not None
    raises = bisection.signature.kind in RAISED
    reason = "no script can be written from the record"
    fullest = recipes(bisection.record, bisection.minimal, bisection.signature)
    every = [each for full in fullest for each in (simplifying.lean(full), full)]
    for recipe in sorted(every, key=lambda each: (each.sign is None, each.clip)):
        full = candidate(recipe, title, raises)
        outcome, why = checks.observed(full)
        if outcome != "fails":
            reason = f"a small {recipe.model or 'model in plain torch'} does not fail in the same way: {why}"
            continue
        left = next((layer for layer in bisection.minimal if not checks.passes(full, layer)), None)
        if left is None:
            return [_smallest(recipe, checks.within(whole), title, raises), full], ""
        reason = f"a small script is not well without {left}"
    return [], reason


def _smallest(recipe: Recipe, checks: Checked, title: str, raises: bool) -> Candidate:
    """The failing recipe with as many simplifications as leave the fault, as far as the time goes."""
    best = recipe
    try:
        for group in simplifying.of(recipe, raises):
            begun = best

            def fails(left: list[Simplification], begun: Recipe = begun, group: list[Simplification] = group) -> bool:
                nonlocal best
                smaller = begun
                for change in group:
                    if change not in left:
                        smaller = change(smaller)
                if not checks.fails(candidate(smaller, title, raises)):
                    return False
                best = smaller
                return True

            fewest(group, fails)
    except OutOfBudget:
        pass
    return candidate(best, title, raises)
