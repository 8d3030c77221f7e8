"""How the ranks of a job stood when it ended: who had finished, who waited for the others, who was elsewhere."""

from __future__ import annotations

import re
from typing import NamedTuple

from trueup.schema.record import Rank, Record

LEFT_ALONE = re.compile(
    r"Connection closed by peer|Connection reset by peer|Timed out waiting \d+\s?ms for (?:recv|send) operation"
    r"|Broken pipe|NCCL (?:operation|communicator) .*(?:timed out|aborted)|Watchdog caught collective operation timeout"
)
"""What a rank prints whose partners in a collective are gone or never came."""
WAITS = re.compile(
    r"(?:all_reduce|all_gather|reduce_scatter|all_to_all|broadcast|barrier|monitored_barrier|reduce|gather|scatter|send"
    r"|recv|wait|_engine_run_backward)"
)
"""Functions of torch in which a rank waits for others; a backward pass that does not end waits for a reduction."""
DEEP = 4
"""Innermost frames among which the waiting call is looked for."""
TIMED_OUT = re.compile(r"Timed out waiting \d+\s?ms for (?:recv|send) operation")
"""What a rank prints that waited as long as it may, its partners still being there."""
_RAISED_AT = re.compile(r"^at (?P<place>\S+:\d+)$", re.M)
_SPY = re.compile(r"^\s+(?P<function>.+) \((?P<file>[^()]+):(?P<line>\d+)\)\s*$")
_HANDLER = re.compile(r'^\s+File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>\S+)\s*$')
_THREAD = re.compile(r"^(?:Current )?[Tt]hread .*$", re.M)


class Frame(NamedTuple):
    function: str
    file: str
    line: str


def finished(record: Record) -> tuple[Rank, ...]:
    """Ranks that had trained and ended by themselves."""
    return tuple(rank for rank in record.ranks if rank.exit.reason == "finished" and rank.steps > 0)


def waiting(record: Record) -> tuple[Rank, ...]:
    """Ranks that stood in a collective when the run was ended, or died in one because a partner was missing."""
    return tuple(rank for rank in record.ranks if _died_waiting(rank) or _stood_waiting(rank))


def elsewhere(record: Record) -> tuple[Rank, ...]:
    """Ranks that had not finished when the run was ended, and stood in no collective."""
    return tuple(
        rank for rank in record.ranks if rank.exit.reason == "timeout" and rank.stack and not _stood_waiting(rank)
    )


def timed_out(record: Record) -> tuple[Rank, ...]:
    """Ranks that died of the timeout of a collective in which they stood."""
    return tuple(rank for rank in record.ranks if rank.error and TIMED_OUT.search(rank.error))


def place(rank: Rank) -> str | None:
    """The innermost line of the user's code in the stack of a rank, or else where its error rose, `train.py:29`."""
    for frame in main_thread(rank.stack or ""):
        if not _of_torch(frame) and "trueup_instrument/" not in frame.file:
            return f"{frame.file}:{frame.line}"
    raised = _RAISED_AT.search(rank.error or "")
    return raised["place"] if raised else None


def same_data(record: Record) -> bool:
    """True where the data of all ranks were seen to end, after the same number of batches in each loop."""
    loops = [rank.loops for rank in record.ranks]
    ends = [[loop.batches for loop in each if loop.batches is not None] for each in loops]
    done = max((len(rank.loops) for rank in finished(record)), default=0)
    if not all(ends) or any(len(each) < done for each in ends):
        return False
    return all(len(set(at)) == 1 for at in zip(*ends, strict=False))


def main_thread(stack: str) -> list[Frame]:
    """The frames of the main thread, innermost first, as py-spy or as faulthandler (there it is last) writes them."""
    threads = list(_THREAD.finditer(stack))
    if not threads:
        return []
    main = next((each for each in threads if '"MainThread"' in each[0]), threads[-1])
    following = next((each.start() for each in threads if each.start() > main.start()), len(stack))
    lines = stack[main.end() : following].splitlines()
    found = (_SPY.match(line) or _HANDLER.match(line) for line in lines)
    return [Frame(each["function"], each["file"], each["line"]) for each in found if each]


def _died_waiting(rank: Rank) -> bool:
    return bool(rank.error and LEFT_ALONE.search(rank.error))


def _stood_waiting(rank: Rank) -> bool:
    if rank.exit.reason != "timeout":
        return False
    innermost = main_thread(rank.stack or "")[:DEEP]
    return any(_of_torch(frame) and WAITS.match(frame.function) for frame in innermost)


def _of_torch(frame: Frame) -> bool:
    return "torch/" in frame.file
