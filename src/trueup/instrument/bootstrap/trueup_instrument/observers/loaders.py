"""After how many batches the data loader of a training loop ended, in a job of several ranks."""

from __future__ import annotations

import weakref

from trueup_instrument import patching, places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from trueup_instrument.session import Session

NAME = "loaders"
TOLD = 8
"""Loops of a process whose end is told: ranks that see different numbers of batches part at the end of the first."""


def attach(session: Session) -> None:
    loops = _Loops(session)
    session.after_torch(NAME, "torch.utils.data.dataloader", lambda module: _follow(session, loops, module))


class _Loops:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._began: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """Iterator of a loader → optimizer steps made when its first batch came."""
        self._told = 0

    def came(self, iterator: Any) -> None:
        if iterator._num_yielded == 1:
            self._began[iterator] = self._steps()

    def ended(self, iterator: Any) -> None:
        """Told only where the loop trained: others need not be of one length on all ranks."""
        began, steps = self._began.pop(iterator, None), self._steps()
        group = getattr(self._session, "process_group", None) or {}
        if began is None or steps <= began or group.get("world_size", 1) < 2 or self._told == TOLD:
            return
        self._told += 1
        self._session.write("loop-end", batches=iterator._num_yielded, steps=steps, at=places.user_line())

    def _steps(self) -> int:
        clock = self._session.clock
        return clock.steps if clock is not None else 0


def _follow(session: Session, loops: _Loops, module: ModuleType) -> None:
    kind = module._BaseDataLoaderIter
    original = kind.__next__
    came, ended = session.guarded(NAME, loops.came), session.guarded(NAME, loops.ended)

    def following(self: Any) -> Any:
        try:
            batch = original(self)
        except StopIteration:
            ended(self)
            raise
        came(self)
        return batch

    patching.dress(following, original)
    kind.__next__ = following
    session.undo.append(lambda: patching.take_away(kind, "__next__", following, original))
