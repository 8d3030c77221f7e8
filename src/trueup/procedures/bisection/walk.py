"""The walk of a bisect: the case, the search, the order, and what lies within the layers.

The job is run with some of its layers forced off, each time with those that tell the most, until one set is left. It is
then run alone, and without each of its layers: what is told is what was seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from trueup.procedures.bisection.answer import Answer
from trueup.procedures.bisection.case import NoCase, case_of
from trueup.procedures.bisection.inside import descend, most_runs
from trueup.procedures.bisection.layers import OFF
from trueup.procedures.bisection.order import order
from trueup.procedures.bisection.search import Search
from trueup.procedures.bisection.trials import OutOfRuns, Run, Trials
from trueup.procedures.probes import Interrupted
from trueup.schema.bisection import Bisection, Signature

LIMIT = 80
"""Runs of a bisect, unless another number is given."""
INSIDE = 420.0
"""Seconds to look within the layers, unless another number is given."""

Say = Callable[[str], object]


def bisect(
    run: Run,
    *,
    fault: Signature | None = None,
    layers: tuple[str, ...] = tuple(OFF),
    at_once: int = 1,
    limit: int = LIMIT,
    timeout: float | None = None,
    inside: float = INSIDE,
    say: Say = lambda text: None,
) -> Bisection:
    """Find the smallest set of `layers` with which the job behind `run` fails as it does.

    `fault`: what is looked for, by default what the job shows. `at_once`: runs that may be made side by side. `limit`:
    runs at most. `timeout`: seconds of each; by default it follows the control's. `inside`: seconds after which
    no run within the layers begins; with 0 they are not looked at.
    """
    answer = Answer(Trials(run, limit=limit, timeout=timeout, say=say))
    try:
        _walk(answer, fault, layers, at_once, inside, say)
    except NoCase as error:
        answer.verdict, answer.why, answer.none = error.verdict, str(error), error
    except OutOfRuns as error:
        answer.stop("not settled", str(error))
    except Interrupted:
        answer.stop("interrupted", "ended before all was known")
    return answer.told()


def _walk(
    answer: Answer, fault: Signature | None, layers: tuple[str, ...], at_once: int, inside: float, say: Say
) -> None:
    trials = answer.trials
    case = answer.case = case_of(trials, fault, layers, say)
    search = answer.search = Search(case, trials, at_once, say)
    if search.begin() == "fails":
        raise NoCase("not of the layers", "it fails in the same way with all of these layers off")
    search.go()
    if not search.hunt.settled:
        answer.stop("not settled", "the runs that are possible leave more than one set")
        return
    answer.verdict, answer.why = "found", search.words
    names = search.named(search.minimal)
    if names:
        trials.rate = search.hunt.rate
        base = case.attempt(search.minimal | search.given)
        answer.order = order(trials, base.variant, names, case.job)
        if inside:
            say(f"within {' and '.join(names)}: at most {most_runs(trials, names)} runs, {inside / 60:.0f} minutes")
            trials.until = time.monotonic() + inside
        for found in descend(trials, base, names, case.job) if inside else ():
            say(f"{found.layer}: {found.what} {found.answer}")
            answer.inside.append(found)
