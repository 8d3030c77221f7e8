"""What a fault looks like in a record."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trueup.procedures.agreement import agreement
from trueup.rules.rank_ends import LEFT_ALONE
from trueup.schema.bisection import Signature
from trueup.schema.finding import Finding
from trueup.schema.record import Rank, Record

_VARYING = re.compile(
    r"0x[0-9a-fA-F]+|'[^'\n]*[/\\][^'\n]*'|(?:/[\w.+-]+)+|\b\d[\d.,]*(?:e[+-]?\d+)?\b|\[rank\s*\d+\]:?|\bnan\b"
)
"""Addresses, paths and numbers: what differs between two runs of one fault."""
_TYPE = re.compile(r"(?P<type>[A-Za-z_][\w.]*)(?::\s*(?P<message>.*))?$")
_MEMORY = re.compile(r"out of memory|not enough memory|cannot allocate memory|can't allocate memory", re.IGNORECASE)
_SET = re.compile(r"\{([^{}:]+)\}")
KILLED = 137


def signature_of(record: Record, controls: Sequence[Record] = ()) -> Signature | None:
    """The worst that a record shows: how it ended, else the first error or warning, else losses that are not those of
    the `controls`. None when all is well."""
    if record.exit.reason == "timeout":
        return Signature(kind="hang", text="the job was still running when its time was over")
    if record.exit.code:
        return of_failure(record)
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


def of_failure(record: Record) -> Signature:
    """How a run ended that did not end well."""
    rank = failed_first(record)
    if is_memory(record, rank):
        return Signature(
            kind="memory", text=headline(rank.error) if rank and rank.error else "killed, as when memory runs out"
        )
    if rank is None or rank.error is None:
        signal = f", by {record.exit.signal}" if record.exit.signal else ""
        return Signature(kind="exit", text=f"exit code {record.exit.code}{signal}")
    name, message = parted(rank.error)
    return Signature(
        kind="exception",
        text=headline(rank.error),
        exception=name,
        message=alike(message),
        frames=tuple(map(place_of, rank.frames)),
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
    """The message without what differs between two runs; a set that it prints in one order."""
    sorted_sets = _SET.sub(lambda found: "{" + ", ".join(sorted(found[1].split(", "))) + "}", message)
    return _VARYING.sub("#", sorted_sets).strip()


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


def place_of(frame: str) -> str:
    """`file:line` with its last folder only: the others differ between copies of the working folder."""
    return "/".join(frame.replace("\\", "/").split("/")[-2:])


def is_memory(record: Record, rank: Rank | None) -> bool:
    """Whether a run, in which `rank` failed first, ran out of memory."""
    if rank is None or not rank.error:
        return record.exit.code == KILLED
    name, message = parted(rank.error)
    return name in ("OutOfMemoryError", "MemoryError") or bool(_MEMORY.search(message))
