"""What a fault looks like in a record, and whether another record shows the same one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from trueup.procedures.agreement import agreement
from trueup.procedures.numerics import difference
from trueup.procedures.speed import speed
from trueup.rules.rank_ends import LEFT_ALONE
from trueup.schema.bisection import Kind, Outcome, Signature
from trueup.schema.finding import Finding
from trueup.schema.record import Rank, Record

_VARYING = re.compile(
    r"0x[0-9a-fA-F]+|'[^'\n]*[/\\][^'\n]*'|(?:/[\w.+-]+)+|\b\d[\d.,]*(?:e[+-]?\d+)?\b|\[rank\s*\d+\]:?|\bnan\b"
)
"""Addresses, paths and numbers: what differs between two runs of one fault."""
_TYPE = re.compile(r"(?P<type>[A-Za-z_][\w.]*)(?::\s*(?P<message>.*))?$")
_MEMORY = re.compile(r"out of memory|not enough memory|cannot allocate memory|can't allocate memory", re.IGNORECASE)
TELLING = 12
"""Letters of a message from which on it tells the fault; with fewer the place must be the same, too."""
KILLED = 137

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


# -- what a run shows --------------------------------------------------------------------------------------------------


def signature_of(record: Record, controls: Sequence[Record] = ()) -> Signature | None:
    """The worst that a record shows: how it ended, else the first error or warning, else losses that are not those of
    the `controls`. None when all is well."""
    if record.exit.reason == "timeout":
        return Signature(kind="hang", text="the job was still running when its time was over")
    if record.exit.code:
        return _of_failure(record)
    if record.steps.not_finite:
        return Signature(kind="not finite", text=f"the loss of step {record.steps.not_finite[0]} is not finite")
    found = next((each for each in record.findings if each.severity != "note" and not each.follows), None)
    if found is not None:
        return Signature(kind="finding", text=found.message, rule=found.rule)
    if controls:
        numbers = agreement(controls, [record])
        if numbers.verdict == "different":
            return Signature(kind="loss", text=f"not what the job computes with its layers off: {numbers.why}")
    return None


def _of_failure(record: Record) -> Signature:
    rank = failed_first(record)
    if _is_memory(record, rank):
        return Signature(kind="memory", text=headline(rank.error) if rank and rank.error else "killed for its memory")
    if rank is None or rank.error is None:
        signal = f", by {record.exit.signal}" if record.exit.signal else ""
        return Signature(kind="exit", text=f"exit code {record.exit.code}{signal}")
    name, message = parted(rank.error)
    return Signature(
        kind="exception",
        text=headline(rank.error),
        exception=name,
        message=alike(message),
        frames=tuple(map(_place, rank.frames)),
    )


def failed_first(record: Record) -> Rank | None:
    """The rank whose exception ended the job: not one that only lost the others."""
    failed = [rank for rank in record.ranks if rank.error]
    own = [rank for rank in failed if not LEFT_ALONE.search(rank.error or "")]
    return next(iter(own or failed), None)


def headline(error: str) -> str:
    """`type: first line of the message`."""
    name, message = parted(error)
    return f"{name}: {message}" if message else name


def parted(error: str) -> tuple[str, str]:
    """Type without its module, and first line of the message."""
    first = next((line.strip() for line in error.splitlines() if line.strip()), "")
    found = _TYPE.match(first)
    if found is None:
        return "exception", first
    return found["type"].rpartition(".")[2], (found["message"] or "").strip()


def alike(message: str) -> str:
    """The message without what differs between two runs."""
    return _VARYING.sub("#", message).strip()


def ended(record: Record) -> str:
    """How a run ended, in words."""
    rank = failed_first(record)
    if rank is not None and rank.error:
        return headline(rank.error)
    if record.exit.reason == "timeout":
        return "did not end in its time"
    return f"exit code {record.exit.code}" if record.exit.code else "ended well"


def finding_of(record: Record, rule: str | None, *, notes: bool = False) -> Finding | None:
    """The finding of a rule, as severe as a warning, or with `notes` of any severity."""
    found = (each for each in record.findings if each.rule == rule and (notes or each.severity != "note"))
    return next(found, None)


def _place(frame: str) -> str:
    """`file:line` without its folders, which differ between copies of the working folder."""
    return frame.replace("\\", "/").rpartition("/")[2]


def _is_memory(record: Record, rank: Rank | None) -> bool:
    if rank is None or not rank.error:
        return record.exit.code == KILLED
    name, message = parted(rank.error)
    return name in ("OutOfMemoryError", "MemoryError") or bool(_MEMORY.search(message))


# -- the same fault ----------------------------------------------------------------------------------------------------


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
    return told >= TELLING or not signature.frames or signature.frames[:1] == tuple(map(_place, rank.frames[:1]))


def _has(text: str, error: str) -> bool:
    return text.casefold() in error.casefold()


def _exit(record: Record, signature: Signature) -> Judged:
    if record.exit.reason == "timeout":
        return "unresolved", "did not end in its time"
    if not record.exit.code:
        return "passes", "ended well"
    if signature.given:
        same = signature.text in ("", f"exit code {record.exit.code}")
    else:
        same = _of_failure(record).kind == "exit"
    return ("fails" if same else "unresolved"), ended(record)


def _memory(record: Record, signature: Signature) -> Judged:
    if record.exit.reason == "timeout":
        return "unresolved", "did not end in its time"
    if not record.exit.code:
        return "passes", "ended well"
    return ("fails" if _is_memory(record, failed_first(record)) else "unresolved"), ended(record)


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
    if layer in (record.variant.get("layers") or {}):
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


STEADY: Mapping[Kind, float] = {"exception": 0.97, "exit": 0.9, "finding": 0.97, "coverage": 0.97}
"""Kind of fault → belief, before any run, that it shows in every run; the others come and go."""
