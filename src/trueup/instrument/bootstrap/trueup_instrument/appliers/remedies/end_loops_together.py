"""A loop over a data loader in which ranks train together ends on all of them with the rank whose data ends first.

Before each further batch the ranks tell each other, through the store that they met at, whether they have one. A batch
that another rank has no partner for is left out, as `drop_last` does. A rank that waits in vain stops asking.
"""

from __future__ import annotations

import sys
import threading
import time
import weakref

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

PART = 0.5
"""Of the timeout of collectives, after which a rank no longer waits for the others."""
OFF = "off"
SHORTEST, LONGEST = 0.0002, 0.01
"""Seconds between two looks into the store."""
FSDP1 = "torch.distributed.fsdp.fully_sharded_data_parallel"
FSDP2 = "torch.distributed.fsdp._fully_shard._fsdp_state"


def attach(switch: Switch) -> None:
    loops = Loops(switch)
    met = switch.guarded(loops.met)
    switch.after(
        "torch.nn.parallel.distributed", lambda module: _before(module.DistributedDataParallel, "forward", met)
    )
    switch.after(FSDP1, lambda module: _before(module.FullyShardedDataParallel, "forward", met))
    switch.after(FSDP2, lambda module: _before(module.FSDPState, "_root_pre_forward", met))
    switch.after("torch.utils.data.dataloader", lambda module: _loader(switch, loops, module))


class Loops:
    """The loops of this rank in which it meets others, numbered alike on all of them."""

    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self._meetings = 0
        self._at_last_batch: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """Iterator of a loader → meetings when it gave its last batch."""
        self._numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._count = 0
        self._partners: Partners | None = None
        self._off = False

    def met(self) -> None:
        """Before a forward pass, with gradients, of a model whose gradients or parameters are exchanged."""
        self._meetings += 1

    def begins(self, iterator: Any) -> None:
        self._numbers.pop(iterator, None)
        self._at_last_batch.pop(iterator, None)

    def question(self, iterator: Any) -> str | None:
        """What the ranks ask each other before the next batch of this loader, None where they do not."""
        distributed = sys.modules.get("torch.distributed")
        if self._off or distributed is None or not distributed.is_initialized() or distributed.get_world_size() < 2:
            return None
        if threading.current_thread() is not threading.main_thread():
            return None
        if iterator not in self._numbers:
            if self._meetings <= self._at_last_batch.get(iterator, self._meetings):
                return None
            self._numbers[iterator] = self._count
            self._count += 1
        return f"{self._numbers[iterator]}/{iterator._num_yielded}"

    def came(self, iterator: Any) -> None:
        self._at_last_batch[iterator] = self._meetings

    def go_on(self, question: str, have: bool) -> bool:
        """Whether all ranks have a further batch."""
        if self._partners is None:
            self._partners = Partners()
        answer = self._partners.ask(question, have)
        if answer is None:
            self._off = True
            self._switch.cannot("not every rank came to ask for a further batch")
            return have
        if have and not answer:
            self._switch.changed("a batch left out, since the data of another rank had ended")
        return answer

    def stop(self) -> None:
        self._off = True


class Partners:
    """All ranks of the default group, by way of its store."""

    def __init__(self) -> None:
        import torch.distributed as distributed
        from torch.distributed.distributed_c10d import _get_default_store

        self._store = distributed.PrefixStore("trueup/loops", _get_default_store())
        self._size = distributed.get_world_size()
        self._patience = PART * self._store.timeout.total_seconds()
        self._last: str | None = None

    def ask(self, question: str, have: bool) -> bool | None:
        """Whether all ranks say that they have one; None where some did not come to say."""
        if not have:
            self._store.add(f"{question}/without", 1)
        if self._store.add(f"{question}/came", 1) == self._size:
            answer = "0" if self._store.add(f"{question}/without", 0) else "1"
            self._store.set(f"{question}/answer", answer)
            self._forget(self._last)
        elif not self._wait(f"{question}/answer"):
            self._store.set(OFF, "1")
            return None
        self._last = question
        return bool(self._store.get(f"{question}/answer") == b"1")

    def _wait(self, key: str) -> bool:
        pause, end = SHORTEST, time.monotonic() + self._patience
        while not self._store.check([key]):
            if time.monotonic() > end or self._store.check([OFF]):
                return False
            time.sleep(pause)
            pause = min(2 * pause, LONGEST)
        return True

    def _forget(self, question: str | None) -> None:
        """Every rank has read the answer to the question before this one."""
        for name in ("without", "came", "answer") if question is not None else ():
            self._store.delete_key(f"{question}/{name}")


def _before(owner: Any, name: str, look: Callable[[], object]) -> None:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            torch = sys.modules["torch"]
            if not torch.compiler.is_compiling() and torch.is_grad_enabled():
                look()
            return original(*args, **kwargs)

        return call

    replace(owner, name, make)


def _loader(switch: Switch, loops: Loops, module: ModuleType) -> None:
    kind = module._BaseDataLoaderIter
    if not hasattr(kind, "_reset"):
        switch.cannot("this release iterates over a data loader in another way")
        return
    begins, came = switch.guarded(loops.begins), switch.guarded(loops.came)
    question, go_on = switch.guarded(loops.question), switch.guarded(loops.go_on)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def following(self: Any) -> Any:
            asked = question(self)
            try:
                batch = original(self)
            except StopIteration:
                if asked is not None and go_on(asked, False) is None:
                    loops.stop()
                raise
            if asked is not None:
                answer = go_on(asked, True)
                if answer is None:
                    loops.stop()
                elif not answer:
                    self._num_yielded -= 1
                    raise StopIteration
            came(self)
            return batch

        return following

    def make_reset(original: Callable[..., Any]) -> Callable[..., Any]:
        def reset(self: Any, *args: Any, **kwargs: Any) -> Any:
            begins(self)
            return original(self, *args, **kwargs)

        return reset

    replace(kind, "__next__", make)
    replace(kind, "_reset", make_reset)
