"""Whether a run shows the fault that is looked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from trueup.procedures.agreement import agreement
from trueup.procedures.bisection.signatures import (
    alike,
    ended,
    failed_first,
    finding_of,
    headline,
    is_memory,
    of_failure,
    parted,
    place_of,
)
from trueup.procedures.numerics import difference
from trueup.procedures.speed import speed
from trueup.procedures.switched import is_off
from trueup.schema.bisection import Kind, Outcome, Signature
from trueup.schema.record import Rank, Record

TELLING = 12
"""Letters of a message from which on it tells the fault; with fewer the place must be the same, too."""
STEADY: Mapping[Kind, float] = {"exception": 0.97, "exit": 0.9, "finding": 0.97, "coverage": 0.97}
"""Kind of fault → belief, before any run, that it shows in every run; the others come and go."""

Judged = tuple[Outcome, str]


class Oracle:
    """Whether a record shows the fault with this signature. `controls`: runs with all layers off, to compare with."""

    def __init__(self, signature: Signature, controls: Sequence[Record] = ()) -> None:
        self.signature = signature
        self.controls = tuple(controls)

    def outcome(self, record: Record) -> Judged:
        """The outcome of a run, and what it showed."""
        signature = self.signature
        if signature.kind in ("exception", "exit", "memory", "hang"):
            return _AT_THE_END[signature.kind](record, signature)
        if record.exit.reason == "timeout":
            return "unresolved", "did not end in its time"
        if record.exit.code:
            return "unresolved", ended(record)
        if signature.kind == "finding":
            return _finding(record, signature)
        if signature.kind == "not finite":
            seen = bool(record.steps.not_finite)
            return ("fails", "a loss is not finite") if seen else ("passes", "all losses are finite")
        if signature.kind == "coverage":
            return _coverage(record, signature)
        return (_loss if signature.kind == "loss" else _slow)(record, signature, self.controls)


def _exception(record: Record, signature: Signature) -> Judged:
    if record.exit.reason == "timeout":
        return "unresolved", "did not end in its time"
    if not record.exit.code:
        return "passes", "ended well"
    same = next((rank for rank in record.ranks if rank.error and _is_same(rank, signature)), None)
    return ("fails", headline(same.error)) if same is not None and same.error else ("unresolved", ended(record))


def _is_same(rank: Rank, signature: Signature) -> bool:
    name, message = parted(rank.error or "")
    if signature.given:
        return _has(signature.text, f"{name}: {rank.error}")
    if (name, alike(message)) != (signature.exception, signature.message):
        return False
    told = sum(letter.isalpha() for letter in signature.message or "")
    return told >= TELLING or not signature.frames or signature.frames[:1] == tuple(map(place_of, rank.frames[:1]))


def _has(text: str, error: str) -> bool:
    return text.casefold() in error.casefold()


def _exit(record: Record, signature: Signature) -> Judged:
    if record.exit.reason == "timeout":
        return "unresolved", "did not end in its time"
    if not record.exit.code:
        return "passes", "ended well"
    same = signature.code in (None, record.exit.code) if signature.given else of_failure(record).kind == "exit"
    return ("fails" if same else "unresolved"), ended(record)


def _memory(record: Record, signature: Signature) -> Judged:
    if record.exit.reason == "timeout":
        return "unresolved", "did not end in its time"
    if not record.exit.code:
        return "passes", "ended well"
    return ("fails" if is_memory(record, failed_first(record)) else "unresolved"), ended(record)


def _hang(record: Record, signature: Signature) -> Judged:
    if record.exit.reason == "timeout":
        return "fails", "hangs"
    return ("unresolved", ended(record)) if record.exit.code else ("passes", "ended well")


_AT_THE_END: Mapping[str, Callable[[Record, Signature], Judged]] = {
    "exception": _exception,
    "exit": _exit,
    "memory": _memory,
    "hang": _hang,
}


def _finding(record: Record, signature: Signature) -> Judged:
    same = finding_of(record, signature.rule, notes=signature.given)
    return ("fails", same.message) if same is not None else ("passes", f"no {signature.rule}")


def _coverage(record: Record, signature: Signature) -> Judged:
    layer = signature.layer or ""
    if is_off(layer, str((record.variant.get("layers") or {}).get(layer))):
        return "passes", f"{layer} is switched off"
    share = COVERAGE[layer](record)
    if share is None:
        return "unresolved", f"coverage of {layer} was not observed"
    lost = share < (signature.threshold or 1.0)
    return ("fails" if lost else "passes"), f"coverage of {layer} is {share * 100:.0f} %"


COVERAGE: Mapping[str, Callable[[Record], float | None]] = {
    "compile": lambda record: record.actual.compile.fraction,
    "attention": lambda record: record.actual.attention.fused_fraction,
    "checkpointing": lambda record: record.actual.checkpointing.fraction,
    "sharding": lambda record: record.actual.sharding.fraction,
    "adapter": lambda record: record.actual.adapter.trainable_fraction,
}


def _loss(record: Record, signature: Signature, controls: Sequence[Record]) -> Judged:
    if signature.threshold is not None:
        worst = difference(controls[0], record)[1] if controls else None
        if worst is None:
            return "unresolved", "no step of both has a loss"
        return ("fails" if worst > signature.threshold else "passes"), f"relative difference {worst:.2g}"
    numbers = agreement(controls, [record])
    if numbers.verdict == "not compared":
        return "unresolved", numbers.why
    return ("fails" if numbers.verdict == "different" else "passes"), numbers.why


def _slow(record: Record, signature: Signature, controls: Sequence[Record]) -> Judged:
    measured = speed([record], controls)
    if measured.ratio is None:
        return "unresolved", "too few steps to tell the pace"
    return (
        "fails" if measured.ratio > (signature.threshold or 1.0) else "passes"
    ), f"{measured.ratio:.2f} times the control's time of a step"
