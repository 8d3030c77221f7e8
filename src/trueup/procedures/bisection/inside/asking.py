"""One question within a layer: the job with the guilty layers alone, and one thing of them changed."""

from __future__ import annotations

import msgspec

from trueup.procedures.bisection.layers import OFF
from trueup.procedures.bisection.trials import Trials
from trueup.schema.bisection import Attempt, Outcome
from trueup.schema.record import Record, unchanged
from trueup.schema.variant import UNCHANGED, named


def forced(base: Attempt, layer: str, value: str) -> Attempt:
    """`base` with a layer forced to a value."""
    places = {name: place for place, name in enumerate(OFF)}
    layers = {**base.variant.layers, layer: value}
    ordered = {name: layers[name] for name in sorted(layers, key=lambda name: places.get(name, len(places)))}
    variant = named(msgspec.structs.replace(base.variant, name=UNCHANGED, layers=ordered))
    return msgspec.structs.replace(base, variant=variant)


def outcome(trials: Trials, attempt: Attempt, layer: str) -> Outcome:
    """What runs of an attempt show of which `layer` was forced: nothing when that changed nothing. Raises OutOfRuns."""
    return outcomes(trials, [attempt], layer)[0]


def outcomes(trials: Trials, attempts: list[Attempt], layer: str) -> list[Outcome]:
    """The same of several attempts, run at once where that can be."""
    found = trials.settle(attempts, "inside")
    return [
        each if _tells(each, trials.records(attempt)[-1], attempt, layer) else "unresolved"
        for each, attempt in zip(found, attempts, strict=True)
    ]


def changed(trials: Trials, attempt: Attempt, layer: str) -> bool:
    """Whether forcing `layer` changed anything in the runs of an attempt."""
    asked = unchanged(f"--set {layer}={attempt.variant.layers.get(layer)}")
    records = trials.records(attempt)
    return bool(records) and not any(note.what.startswith(asked) for note in records[-1].notes)


def _tells(found: Outcome, record: Record, attempt: Attempt, layer: str) -> bool:
    asked = f"--set {layer}={attempt.variant.layers.get(layer)}"
    if any(note.what.startswith(unchanged(asked)) for note in record.notes):
        return False
    return found != "fails" or not any(note.what.startswith(f"{asked} did not reach") for note in record.notes)


def latest(trials: Trials, base: Attempt, record: Record) -> Record:
    """The last run of `base` that was made, else the job's own."""
    records = trials.records(base)
    return records[-1] if records else record
