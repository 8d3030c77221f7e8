"""Root against cascade: which failure the others follow from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from trueup.logs.collecting import Entry
from trueup.logs.launchers import ROOT_CAUSE
from trueup.logs.times import moment
from trueup.schema.log import Failure, Role

SURVIVED = 500
"""Routine lines behind a failure that show that its job went on."""

_FOLLOWS = re.compile(
    r"[Cc]onnection (?:was )?(?:likely )?(?:closed|reset|refused|aborted)|"
    r"closed by (?:remote )?peer|Broken pipe|ncclRemoteError|"
    r"remote process (?:has )?exited|Watchdog caught collective operation timeout|detected by watchdog|ncclCommAbort|"
    r"NCCL communicator was aborted|Socket Timeout|recvValue failed|sendBytes failed|wait timeout after|"
    r"monitoredBarrier|process group has been destroyed|Process \d+ got signal: |got signal: 15|"
    r"Timed out waiting \d+ms|failed to (?:recv|send),? got 0 bytes|socketProgress|caused pair closure|"
    r"peer (?:rank )?(?:has )?(?:exited|closed|failed)|One or more workers? (?:died|failed)|"
    r"worker .{0,40}(?:already )?(?:died|dead)|"
    r"Engine ?core .{0,40}(?:failed|died)|EngineDeadError|heartbeat",
    re.I,
)
_WRAPPERS = {
    "BrokenPipeError", "BrokenProcessPool", "CalledProcessError", "CancelledError", "ChildFailedError",
    "ConnectionResetError", "EOFError", "KeyboardInterrupt", "ProcessExitedException", "SignalException", "SystemExit",
}  # fmt: skip
_SUMMARIES = {"CalledProcessError", "ProcessExitedException", "SystemExit"}
_BUILD_WRAPPERS = re.compile(r"Error compiling objects for extension|error: command '|Error building extension")
_DEVICE_ASSERT = re.compile(r"device-side assert")
_MINOR_TYPES = {"NCCL WARN", "hint", "uninstall", "conflict", "Xid"}


def ordered(entries: Sequence[Entry], progress: int) -> tuple[Failure, ...]:
    """The failures with their roles, the likeliest root first, then in the order printed."""
    root_ranks = _ranks_that_failed_first(entries)
    independent = [entry for entry in entries if _is_independent(entry, entries)]
    independent += _signals_without_words(entries, independent)
    chosen = {id(entry) for entry in independent}
    waiting = [entry for entry in entries if id(entry) not in chosen and _may_be_promoted(entry)]
    first = _first(independent, root_ranks, progress) or _first(waiting, root_ranks, progress)
    first = first or next((entry for entry in entries if entry.failure.role == "warning"), None)
    has_root = bool(independent)
    values = [(entry, _with_role(entry, id(entry) in chosen, has_root, entry is first)) for entry in entries]
    return tuple(value for entry, value in sorted(values, key=lambda pair: (pair[0] is not first, pair[0].order)))


def _with_role(entry: Entry, independent: bool, has_root: bool, first: bool) -> Failure:
    value = entry.value()
    role: Role = value.role
    if independent:
        role = "root"
    elif role == "root" and has_root:
        role = "summary" if _last_name(value) in _SUMMARIES or _BUILD_WRAPPERS.search(value.printed) else "cascade"
    elif role in ("cascade", "summary") and first and not has_root:
        role = "root"
    return msgspec.structs.replace(value, role=role)


def _is_independent(entry: Entry, entries: Sequence[Entry]) -> bool:
    """True for a failure that names a cause of its own, not the end of another process."""
    failure = entry.failure
    if failure.role != "root" or failure.type == "watchdog timeout" or _last_name(failure) in _WRAPPERS:
        return False
    own_words = failure.printed if not failure.causes else "\n".join((failure.printed, failure.causes[-1].printed))
    if _FOLLOWS.search(own_words):
        return False
    if _DEVICE_ASSERT.search(own_words):
        return not any(other.failure.type == "assertion" for other in entries)
    if _BUILD_WRAPPERS.search(own_words):
        return not any(other.failure.kind == "build" and other.failure.role == "root" for other in entries)
    return True


def _signals_without_words(entries: Sequence[Entry], independent: Sequence[Entry]) -> list[Entry]:
    """Workers that torchrun saw die first, by a signal, of which the text shows nothing else."""
    explained = {rank for entry in independent for rank in entry.ranks}
    unranked_kill = any(entry.failure.kind in ("killed", "native") and not entry.ranks for entry in independent)
    return [
        entry
        for entry in entries
        if entry.failure.place == ROOT_CAUSE
        and entry.failure.kind in ("killed", "native")
        and entry.failure.rank not in explained
        and not unranked_kill
    ]


def _may_be_promoted(entry: Entry) -> bool:
    failure = entry.failure
    if failure.role == "root":
        return True
    if failure.role == "cascade":
        return failure.kind in ("collective", "exception", "native", "killed")
    return failure.role == "summary" and failure.kind in ("launcher", "build", "killed", "native")


def _ranks_that_failed_first(entries: Iterable[Entry]) -> set[int]:
    """Of the launchers' summaries, the earliest observed failure."""
    seen = [entry.failure for entry in entries if entry.failure.place == ROOT_CAUSE]
    times = [moment(failure.time) for failure in seen]
    known = [time for time in times if time is not None]
    return {
        failure.rank
        for failure, time in zip(seen, times, strict=True)
        if failure.rank is not None and (not known or time == min(known))
    }


def _first(entries: Sequence[Entry], root_ranks: set[int], progress: int) -> Entry | None:
    if not entries:
        return None
    moments = [moment(entry.failure.time) for entry in entries]
    comparable = all(time is not None for time in moments)

    def rank(pair: tuple[Entry, float | None]) -> tuple[bool, bool, bool, int, float, tuple[int, int, int]]:
        entry, time = pair
        failure = entry.failure
        minor = failure.kind == "message" or failure.type in _MINOR_TYPES or failure.role == "summary"
        survived = progress - entry.progress > SURVIVED
        known = bool(root_ranks) and not (entry.ranks & root_ranks)
        waited = {"root": 0, "cascade": 1, "summary": 2}.get(failure.role, 3)
        return minor, survived, known, waited, time if comparable and time is not None else 0.0, entry.order

    return min(zip(entries, moments, strict=True), key=rank)[0]


def _last_name(failure: Failure) -> str:
    return (failure.type or "").rpartition(".")[2].partition("(")[0]
