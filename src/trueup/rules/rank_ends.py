"""How the ranks of a job stood when it ended: who had finished, who waited for the others, who was elsewhere."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from trueup.schema.record import Loop, Rank, Record

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


class Turn(NamedTuple):
    """A loop that other ranks have too: the `number`-th that began at this place, from 1."""

    at: str | None
    number: int


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


def joins(rank: Rank) -> bool:
    """Whether it stood in torch's context for ranks with uneven data, which takes part until the last one is done."""
    return any(frame.file.endswith("distributed/algorithms/join.py") for frame in main_thread(rank.stack or ""))


def stood_together(record: Record) -> bool:
    """All ranks stood in one collective, called from the same lines, when the run was ended."""
    paths = {path(rank) for rank in record.ranks if _stood_waiting(rank)}
    return len(paths) == 1 and all(_stood_waiting(rank) for rank in record.ranks)


def path(rank: Rank) -> tuple[tuple[str, str], ...]:
    """File and line of each frame of the main thread outside of torch, innermost first."""
    return tuple((frame.file, frame.line) for frame in main_thread(rank.stack or "") if not _of_torch(frame))


def turns(rank: Rank) -> dict[Turn, Loop]:
    """Its loops, oldest first; records of before loops had numbers hold the first ones."""
    seen: Counter[str | None] = Counter()
    found: dict[Turn, Loop] = {}
    for loop in rank.loops:
        seen[loop.at] += 1
        found[Turn(loop.at, loop.number or seen[loop.at])] = loop
    return found


def steps_together(record: Record) -> int | None:
    """Steps of a failed run until the data of a rank ended before those of others; None where they did not.

    From there on the exchanges of different steps met each other, and no loss is worth a comparison.
    """
    if not record.exit.code:
        return None  # the program may handle it: torch's Join, reductions of its own
    each = [(rank, turns(rank)) for rank in record.ranks]
    ends: list[int] = []
    for turn in {turn for _, mine in each for turn in mine}:
        loops = [(rank, mine[turn]) for rank, mine in each if turn in mine]
        ended = [loop.steps or 0 for _, loop in loops if loop.batches is not None]
        uneven = len({loop.batches for _, loop in loops if loop.batches is not None}) > 1
        if ended and (uneven or any(loop.batches is None and rank.steps >= min(ended) for rank, loop in loops)):
            ends.append(min(ended))
    return min(ends, default=None)


def same_data(record: Record) -> bool:
    """True where the data of all ranks were seen to end, after the same number of batches in each loop.

    Looked at are the loops that the ranks which ended had begun, where all ranks have some at that place, from the
    first one on that is known of all of them.
    """
    each = [turns(rank) for rank in record.ranks]
    done = [turn for rank in finished(record) for turn in turns(rank)]
    compared = 0
    for at in {turn.at for turn in done}:
        known = [[turn.number for turn in mine if turn.at == at] for mine in each]
        if not all(known):
            continue
        for number in range(max(map(min, known)), max(turn.number for turn in done if turn.at == at) + 1):
            loops = [mine.get(Turn(at, number), Loop()) for mine in each]
            if None in (batches := {loop.batches for loop in loops}) or len(batches) > 1:
                return False
            compared += 1
    return compared > 0


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
