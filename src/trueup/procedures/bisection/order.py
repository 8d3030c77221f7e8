"""Whether the order of the guilty layers matters: two of them at a time change places, once."""

from __future__ import annotations

from itertools import combinations

import msgspec

from trueup.procedures.bisection.trials import Trials
from trueup.procedures.switched import seen
from trueup.schema.bisection import Attempt, Outcome
from trueup.schema.record import Record, unchanged
from trueup.schema.variant import CHANGEABLE, UNCHANGED, WHICHEVER, Variant, orders

TRACED = f"what is compiled is traced at its first call, with the dtypes of then, {WHICHEVER}"
SETTLED = {
    ("adapter", "sharding"): "units and replicas are made of the parameters that are there: adapters have to come "
    "first, as they do here",
    ("precision", "compile"): TRACED,
    ("compile", "precision"): TRACED,
}
"""(what lies within, what is around it) → why no other order is to be tried."""
Answer = tuple[bool | None, str]
"""Whether the order of two layers matters, None where that was not tried, and what was seen."""


def order(trials: Trials, base: Variant, minimal: tuple[str, ...], record: Record) -> tuple[bool | None, str | None]:
    """Whether the order of the `minimal` layers matters, and what was seen.

    `base` is the variant in which no other layer is on, `record` the job as it is. True when the fault is gone with two
    of them in the other order and both still run; False when it stays whichever two change places. Raises OutOfRuns.
    """
    answers = []
    for pair in combinations(minimal, 2):
        answer = _of_two(trials, base, minimal, pair, record)
        if answer[0]:
            return answer
        answers.append(answer)
    if not answers:
        return None, None
    is_known = all(matters is False for matters, _ in answers)
    return (False if is_known else None), "; ".join(words for _, words in answers)


def _of_two(trials: Trials, base: Variant, minimal: tuple[str, ...], pair: tuple[str, str], record: Record) -> Answer:
    absent = next((each for each in pair if not _is_applied(each, record)), None)
    if absent is not None:
        return False, f"{absent} is no step of its own in this job: there is no other order"
    inner, outer = _in_order(pair, record)
    if (inner, outer) in SETTLED:
        return False, SETTLED[inner, outer]
    reverse = outer, inner
    tries = [reverse, (inner, outer)] if "compile" in pair else [reverse]  # what is compiled is known at the first call
    refused = f"{outer} before {inner} cannot be brought about from outside"
    for each in tries:
        if each in CHANGEABLE:
            answer = _tried(trials, base, minimal, each)
            if not answer[1].startswith(unchanged(_name(each))):
                return answer
            refused = answer[1] if each == reverse else refused
    return (False if refused.endswith(WHICHEVER) else None), refused


def _tried(trials: Trials, base: Variant, minimal: tuple[str, ...], wanted: tuple[str, str]) -> Answer:
    attempt = Attempt(variant=msgspec.structs.replace(base, name=UNCHANGED, order=wanted))
    outcome = trials.settled(attempt, "order", minimal)
    trial, name = trials.trial(attempt), _name(wanted)
    assert trial is not None, "it was run just now"
    shown = trials.records(attempt)[-1]
    refused = next((note.what for note in shown.notes if note.what.startswith(unchanged(name))), None)
    if refused is not None:
        return None, refused
    if outcome == "passes":
        idle = [each for each in wanted if not _ran(each, shown)]
        if idle:
            return None, f"with {name} it passes, but {idle[0]} did not run: {trial.why}"
        return True, f"with {name} it passes, and both run: {trial.why}"
    partly = any(note.what.startswith(f"{name} did not reach everything") for note in shown.notes)
    if outcome == "fails" and not partly:
        return False, f"with {name} it fails as before"
    return None, f"with {name} it {ENDS[outcome]}: {trial.why}"


ENDS: dict[Outcome, str] = {
    "fails": "fails as before, though not all could change places",
    "unresolved": "ends in another way",
    "passes": "passes",
}


def _name(pair: tuple[str, str]) -> str:
    return orders(Variant(order=pair))[0]


def _is_applied(layer: str, record: Record) -> bool:
    """Whether the job has a step that applies the layer to a model, or failed within it."""
    return _first(layer, record) is not None or bool(record.exit.code and record.requested.get(layer))


def _first(layer: str, record: Record) -> int | None:
    """The place of the layer's first step in the stack."""
    for index, each in enumerate(record.order):
        if each.layer == layer and each.module is not None and each.detail.get("target", "module") == "module":
            return index
    return None


def _in_order(pair: tuple[str, str], record: Record) -> tuple[str, str]:
    """What lies within, and what is around it. What is compiled as a whole is around whatever comes into it later."""

    def place(layer: str) -> tuple[bool, int]:
        whole = layer == "compile" and any(
            each.detail.get("whole_model") or each.detail.get("around")
            for each in record.order
            if each.layer == layer and not each.detail.get("disabled")
        )
        first = _first(layer, record)
        return whole, len(record.order) if first is None else first

    inner, outer = sorted(pair, key=place)
    return inner, outer


def _ran(layer: str, record: Record) -> bool:
    """Whether a record shows the layer at work."""
    if layer == "sharding":
        return (record.actual.sharding.strategy or "none") != "none"
    if layer == "adapter":
        return record.actual.adapter.adapter_trainable > 0
    if layer == "precision":
        return any(name in HALF for name in {**record.actual.precision.parameters, **record.actual.precision.matmul})
    return seen(layer, record)[1] is True


HALF = ("float16", "bfloat16")
