"""Which steps to look at closely: few, early once steady, again when things changed, and ever more rarely later on."""

from __future__ import annotations

PATIENCE = 6
"""Steps to wait for a quiet one before a restless one is taken."""
EXTRA_LENGTHS = 6
"""Samples granted to sequence lengths not seen before, beyond the regular ones."""


class Schedule:
    """Pure: told of each step's end, says whether the next step is to be sampled."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self.due = 1
        self.changed = False
        """Something was compiled, or gave up compiling, since the last sample."""
        self.lengths: set[int] = set()
        self.extra = EXTRA_LENGTHS

    def next_is_sampled(self, step: int, quiet: bool, length: int | None = None) -> bool:
        """True when the step after `step` is to be sampled; `quiet`: nothing was compiled within `step`."""
        if self.limit is not None and step == self.limit - 1:
            return True
        if step >= self.due:
            return quiet or step - self.due >= PATIENCE
        if quiet and self.changed:
            return True
        if quiet and length is not None and length not in self.lengths and self.extra > 0:
            self.extra -= 1
            return True
        return False

    def compiled(self) -> None:
        self.changed = True

    def sampled(self, step: int, quiet: bool, length: int | None = None) -> None:
        """Step `step` has been sampled; `quiet`: nothing was compiled within it."""
        if length is not None:
            self.lengths.add(length)
        if quiet:
            self.changed = False
            self.due = max(step + 2, step + step // 2 if step < 30 else 2 * step)
        else:
            self.due = step + 2
