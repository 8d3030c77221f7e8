"""A compiled optimizer step is compiled again whenever the learning rate changes."""

from __future__ import annotations

from trueup.rules.compilation import storm_evidence
from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import listed
from trueup.rules.guards import storms
from trueup.rules.recompile_logs import storm
from trueup.schema.finding import Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    compile = record.actual.compile
    found = storms(compile, "hyperparameter", at_least=3)
    if not found:
        return None
    return Sighting(
        message=f"The compiled optimizer step {found[0].function} was compiled again {found[0].count} times because "
        f"{listed(found[0].sources)} changed.",
        evidence=storm_evidence(found, compile),
    )


def detect_log(log: Log) -> Sighting | None:
    """A guard on a value of param_groups."""
    found = storm(log, "hyperparameter")
    if found is None:
        return None
    return found.sighting(f"{found.sources[0]} is guarded by value and changed")


RULE = Rule(
    id="compile/recompile-optimizer-hyperparameter",
    title="Compiled optimizer step recompiles when lr or betas change",
    layers=("compile", "trainer"),
    severity="warning",
    silent="Each scheduler step compiles until the limit, then the optimizer step runs eager.",
    cause=(
        "Learning rate or momentum is a Python float and guarded by value; some schedulers put a float back "
        "where a tensor was."
    ),
    remedies=(
        Remedy(
            id="tensor-learning-rate",
            kind="code",
            automatic=False,
            how="make lr and betas tensors (capturable=True) and update them in place, or leave the step uncompiled",
        ),
        Remedy(id="upgrade-torch", kind="install", automatic=False, how="torch >= 2.10"),
    ),
    caution=(
        "torch 2.10 and newer compile the step a second time and then treat the value as dynamic; that is no fault."
    ),
    versions={"torch": "<2.10"},
    sources=("https://github.com/pytorch/pytorch/issues/120934", "https://github.com/pytorch/pytorch/issues/163093"),
    explains=("compile/recompile-limit-reached",),
    from_record=detect,
    from_log=detect_log,
)
