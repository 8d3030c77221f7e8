"""The search for a reproduction: synthesis, then reduction, and the proof without trueup."""

from __future__ import annotations

import math
from collections.abc import Callable

import libcst as cst

from trueup.procedures.reproduction.budget import Budget, Checked
from trueup.procedures.reproduction.candidate import LINES, Candidate, Checks, OutOfBudget, Sources
from trueup.procedures.reproduction.reduction.reducing import reduced
from trueup.procedures.reproduction.synthesis import synthesised
from trueup.procedures.reproduction.titles import title_of
from trueup.schema.bisection import Bisection, Reproduction

SECONDS = 300.0
"""That a search may take."""
LEAST = 15
"""Times as long as the job the search may take, where that is more."""
LONGEST = 3
"""Times as long as asked for it may take then."""
SYNTHESIS = 0.5
"""Share of them for the first way."""

Way = Callable[[Checked, str], tuple[list[Candidate], str]]


def reproduce(
    bisection: Bisection,
    sources: Sources,
    checks: Checks,
    budget: float = SECONDS,
    say: Callable[[str], object] = lambda text: None,
) -> tuple[Reproduction | None, str]:
    """A script and its commands, each seen to fail or pass, or None with the reason. Its issue text is empty.

    `bisection` must have a minimal set, a signature and the record of the failing job. `budget` is in seconds; what was
    found by then is proved beyond it.
    """
    if not bisection.minimal or bisection.signature is None or bisection.record is None:
        return None, "no minimal set was found"
    whole = Budget(max(budget, min(LEAST * (bisection.record.duration_s or 0.0), LONGEST * budget)))
    reasons: list[str] = []
    ways: tuple[tuple[str, float, Way], ...] = (
        ("written from the record", SYNTHESIS, lambda each, title: synthesised(bisection, each, title, whole)),
        ("cut out of the job's", 1.0, lambda each, title: reduced(bisection, sources, each, title)),
    )
    for words, share, way in ways:
        say(f"a script {words}")
        checked = Checked(checks, whole.part(share), bisection.rate or 1.0)
        try:
            found, why = way(checked, title_of(bisection))
        except OutOfBudget:
            reasons.append("the time for it was over")
            continue
        except (cst.ParserSyntaxError, SyntaxError, RecursionError) as error:
            reasons.append(f"the script could not be changed: {type(error).__name__}: {error}")
            continue
        reasons += [why] if why else []
        for candidate in dict.fromkeys(found):
            proof, why = _proved(candidate, bisection, checked.within(Budget(math.inf)))
            if proof is not None:
                return proof, ""
            reasons.append(why)
    return None, "; ".join(dict.fromkeys(reasons))


def _proved(found: Candidate, bisection: Bisection, checks: Checked) -> tuple[Reproduction | None, str]:
    """The reproduction, once each command was run: observed, and plainly where the script shows the fault by itself."""
    assert bisection.signature is not None
    lines = len(found.script.splitlines())
    if lines >= LINES:
        return None, f"the smallest script has {lines} lines"
    if not found.alone:
        return None, "the script needs other files of the job's folder"
    ways = [checks.observed, checks.plain] if found.shows else [checks.observed]
    for run in ways:
        outcome, why = run(found)
        if outcome != "fails":
            return None, f"the script does not fail again: {why}"
        for layer in bisection.minimal:
            without = found.without(layer)
            outcome, why = checks.observed(without) if without.forced else run(without)
            if outcome != "passes":
                return None, f"the script is not well without {layer}: {why}"
    return Reproduction(
        script=found.script,
        launch=" ".join(found.command),
        without={layer: " ".join(found.without(layer).command) for layer in bisection.minimal},
        issue="",
    ), ""
