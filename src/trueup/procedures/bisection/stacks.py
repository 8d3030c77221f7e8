"""Where the ranks of a job stood that had to be ended."""

from __future__ import annotations

from trueup.rules.rank_ends import main_thread, place
from trueup.schema.record import Rank, Record


def stacks(record: Record) -> tuple[str, ...]:
    """`rank 1: all_reduce (distributed_c10d.py:3252), called from train.py:36` of each rank whose stack is known."""
    return tuple(f"rank {rank.rank}: {told}" for rank in record.ranks if (told := _standing(rank)))


def _standing(rank: Rank) -> str | None:
    frames = main_thread(rank.stack or "")
    innermost = next((frame for frame in frames if "trueup_instrument/" not in frame.file), None)
    if innermost is None:
        return None
    told = f"{innermost.function} ({innermost.file.rpartition('/')[2]}:{innermost.line})"
    own = place(rank)
    return told if own is None or own.endswith(f"{innermost.file}:{innermost.line}") else f"{told}, called from {own}"
