"""Training loops over data loaders in a job of several ranks: that they began, and how many batches they had."""

from __future__ import annotations

import weakref

from trueup_instrument import patching, places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from trueup_instrument.session import Session

NAME = "loaders"
TOLD = 1000
"""Loops of a process that are told of, so that a loader read again and again does not fill the disk."""


def attach(session: Session) -> None:
    loops = _Loops(session)
    session.after_torch(NAME, "torch.utils.data.dataloader", lambda module: _follow(session, loops, module))


class _Loops:
    """Those over the batches of a loader in which optimizer steps are made: others may differ from rank to rank."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._began: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """Iterator of a loader → optimizer steps made when its first batch came, until it was told of."""
        self._numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """Iterator of a loader → number of its loop, from 1, once that was told of."""
        self._told = 0

    def came(self, iterator: Any) -> None:
        if iterator._num_yielded == 1:
            self._numbers.pop(iterator, None)
            self._began[iterator] = self._steps()
        elif iterator in self._began:
            self._look(iterator)

    def _look(self, iterator: Any) -> None:
        """Tell of the loop if steps were made in it."""
        group = getattr(self._session, "process_group", None) or {}
        if self._steps() <= self._began[iterator]:
            return
        del self._began[iterator]
        if group.get("world_size", 1) > 1 and self._told < TOLD:
            self._told += 1
            self._numbers[iterator] = self._told
            self._session.write("loop-begin", loop=self._told, at=places.user_line(), last=self._told == TOLD)

    def ended(self, iterator: Any) -> None:
        if iterator in self._began:
            self._look(iterator)
        number = self._numbers.pop(iterator, None)
        if number is not None:
            batches, steps = iterator._num_yielded, self._steps()
            self._session.write("loop-end", loop=number, batches=batches, steps=steps, at=places.user_line())

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
