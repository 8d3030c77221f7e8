"""Compiled code reads Python state that the training loop changes each step."""

from __future__ import annotations

import re

from trueup.rules.compilation import effect, storm_evidence
from trueup.rules.definition import Rule, Sighting
from trueup.rules.expression import Expression
from trueup.rules.facts import listed
from trueup.rules.guards import Storm, storms
from trueup.rules.recompile_logs import storm
from trueup.schema.finding import Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record

DROPOUT_RATE = Expression(r"(?:\.p|drop\w*(?:rate|prob|_p)?) == (?:0?\.\d+|\d(?:\.\d+)?e-\d+)$", re.I)
TENSOR_RATE = Remedy(
    id="dropout-rate-in-a-buffer",
    kind="code",
    automatic=False,
    how="keep the rate in a buffer and draw the mask yourself: x * (torch.rand_like(x) >= rate) / (1 - rate); "
    "or change the rate a few times in a run, not each step",
)


def detect(record: Record) -> Sighting | None:
    compile = record.actual.compile
    state = storms(compile, "state", at_least=3)
    in_time = tuple(storm for storm in storms(compile, "attribute", at_least=3) if (storm.steps or 0) >= 3)
    found = state + in_time
    if not found:
        return None
    rates = _dropout_rates(found)
    sources = listed(dict.fromkeys(source for storm in found for source in storm.sources))
    return Sighting(
        message=f"{found[0].function} was compiled again {sum(storm.count for storm in found)} times because "
        f"{sources or 'Python state'} changes from step to step{effect(compile)}.",
        evidence=storm_evidence(found, compile),
        cause="dropout takes its rate as a constant of the graph, so each rate is compiled anew." if rates else "",
        remedies=(TENSOR_RATE,) if rates else (),
    )


def _dropout_rates(found: tuple[Storm, ...]) -> bool:
    """True when nothing but the rate of dropout changes."""
    guards = [guard for storm in found for guard in storm.guards]
    return bool(guards) and all(DROPOUT_RATE.search(guard.text) for guard in guards)


def detect_log(log: Log) -> Sighting | None:
    """A guard on a length, a counter or a global."""
    found = storm(log, "state")
    if found is None:
        return None
    return found.sighting(f"{found.sources[0]} is guarded by value or length and grows")


RULE = Rule(
    id="compile/recompile-growing-python-state",
    title="Python state that changes each step is guarded by value",
    layers=("compile",),
    severity="warning",
    silent="The loss is right; after the limit the function runs eager with one log line.",
    cause=(
        "The compiled code reads a list, dict or number, on the module or in a closure, that the loop "
        "changes; Dynamo guards on its value or length."
    ),
    remedies=(
        Remedy(
            id="dynamic-module-numbers",
            kind="in-process",
            automatic=True,
            how="torch._dynamo.config.allow_unspec_int_on_nn_module = True without dynamic=False, for a number",
        ),
        Remedy(
            id="hide-growing-lists",
            kind="in-process",
            automatic=True,
            how="for a list that is only appended to: return the value, and append it outside of the compiled module",
        ),
        Remedy(
            id="move-python-state-out",
            kind="code",
            automatic=False,
            how="keep the counter or history outside of the compiled module, or in a tensor buffer",
        ),
    ),
    caution="State that changes rarely and takes few values costs only a few compiles.",
    explains=("compile/recompile-limit-reached", "compile/requested-and-not-applied"),
    from_record=detect,
    from_log=detect_log,
)
