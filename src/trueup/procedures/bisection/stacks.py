"""Where the ranks of a job stood that had to be ended."""

from __future__ import annotations

from trueup.rules.rank_ends import main_thread
from trueup.schema.record import Record

DEPTH = 6
"""Innermost frames that are told."""


def stacks(record: Record) -> tuple[str, ...]:
    """`rank 1: all_reduce (distributed_c10d.py:3252), step (train.py:36), ...` of each rank, innermost frame first."""
    told = []
    for rank in record.ranks:
        frames = main_thread(rank.stack or "")[:DEPTH]
        places = (f"{frame.function} ({frame.file.rpartition('/')[2]}:{frame.line})" for frame in frames)
        if frames:
            told.append(f"rank {rank.rank}: {', '.join(places)}")
    return tuple(told)
