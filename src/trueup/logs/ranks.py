"""Which ranks printed: from file names, and from the prefixes of lines that are not read one by one."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

_ATTEMPT = re.compile(r"(?:^|/)attempt_\d+/(?P<rank>\d{1,6})/(?:std(?:out|err)\.log|error\.json)$")
_NAMED = re.compile(r"(?:^|[^a-z])(?:global_?|node)?rank[_=. -]*(?P<rank>\d{1,6})(?!\d)", re.I)
_SLURM = re.compile(r"(?:^|[^\d])\d{2,12}(?:_\d+)?[_-](?P<rank>\d{1,6})\.(?:out|err|log)$")
_WORKER = re.compile(r"(?:worker|task|proc|process|pod|trainer|node)[_.-]*(?P<rank>\d{1,6})(?:[._-]|$)", re.I)
_NUMBER = re.compile(
    r"^(?P<rank>\d{1,6})\.(?:out|err|log|txt)$|(?:std(?:out|err)|log|out|err)[._](?P<rank2>\d{1,6})(?:\.\w+)?$"
)

_LINES = re.compile(rb"^(?:\[(?:rank|default)?(\d{1,6})\]:| {0,4}(\d{1,5}): |\[\d+,(\d{1,6})\]<std)", re.M)
_FIRST_SAMPLE, _SAMPLE = 1 << 18, 1 << 12


def rank_of_file(name: str) -> int | None:
    """The rank that wrote a file of a folder, from its name in the layouts of torchrun, Slurm and by hand."""
    if found := _ATTEMPT.search(name) or _NAMED.search(name):
        return int(found["rank"])
    base = PurePosixPath(name).name
    if found := _SLURM.search(base) or _WORKER.search(base):
        return int(found["rank"])
    if found := _NUMBER.search(base):
        return int(found["rank"] or found["rank2"])
    return None


class Printed:
    """The ranks seen in front of lines, from a part of each block: launchers interleave, so all ranks come up soon."""

    FIRST_BLOCKS = 4

    def __init__(self) -> None:
        self.ranks: set[int] = set()
        self._blocks = 0

    def look(self, block: bytes) -> None:
        """Takes ranks from a block of lines."""
        self._blocks += 1
        sample = block[-(_FIRST_SAMPLE if self._blocks <= self.FIRST_BLOCKS else _SAMPLE) :]
        for groups in _LINES.findall(sample):
            self.ranks.add(int(groups[0] or groups[1] or groups[2]))
