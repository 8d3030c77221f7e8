"""All ranks of a job do the same, or none does it: told through the store that torch.distributed began with.

No collective is used, which would wait without end for a rank that never comes. The decision is one key that is set
once: by the last rank to vote, or to "no" by whoever waited in vain or cannot take part.
"""

from __future__ import annotations

import sys
from datetime import timedelta

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PATIENCE = timedelta(seconds=60)
NO = "no"


class Ranks:
    """The ranks of the default process group; one, where there is none."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._round = 0
        distributed: Any = sys.modules.get("torch.distributed")
        there = distributed is not None and distributed.is_available() and distributed.is_initialized()
        self._distributed = distributed
        self.size = int(distributed.get_world_size()) if there else 1
        self.rank = int(distributed.get_rank()) if there else 0

    def decide(self, vote: str) -> str:
        """What the ranks agree on: the first of their votes in the alphabet, or `no`.

        A vote of `no` is final at once.
        """
        if self.size < 2:
            return vote
        self._round += 1
        store = self._distributed.distributed_c10d._get_default_store()
        key = f"trueup/{self._name}/{self._round}"
        store.set(f"{key}/{self.rank}", vote)
        if vote == NO:
            store.compare_set(key, "", NO)
        elif store.add(f"{key}/votes", 1) == self.size:
            votes = [store.get(f"{key}/{rank}").decode() for rank in range(self.size)]
            store.compare_set(key, "", min(votes))
        try:
            store.wait([key], PATIENCE)
        except RuntimeError:  # no rank decided in time
            store.compare_set(key, "", NO)
        return str(store.get(key).decode())
