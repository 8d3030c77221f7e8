"""A loop over a data loader in which ranks train together ends on all of them with the rank whose data ends first.

Before each further batch the ranks tell each other, through the store that they met at, whether they have one. A batch
that another rank has no partner for is left out, as `drop_last` does. A rank whose last batch is known to be the last
says so when it gets it: a loop that ends by its length never asks for a further one. One that waits in vain stops
asking.
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

PART, MOST = 0.5, 60.0
"""Of the timeout of collectives, and at most so many seconds, after which a rank no longer waits for the others."""
OF_KNOWN_LENGTH = (
    "SequentialSampler",
    "RandomSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
    "DistributedSampler",
)
"""Samplers of torch that give just as many as they say; other ones may give more."""
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
        self._answered: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        """Iterator of a loader → question that was answered with no as its last batch came."""
        self._count = 0
        self._partners: Partners | None = None
        self._off = False

    def met(self) -> None:
        """Before a forward pass, with gradients, of a model whose gradients or parameters are exchanged."""
        self._meetings += 1

    def begins(self, iterator: Any) -> None:
        for kept in (self._numbers, self._at_last_batch, self._answered):
            kept.pop(iterator, None)

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
        return None if iterator in self._answered else self._next_question(iterator)

    def _next_question(self, iterator: Any) -> str:
        return f"{self._numbers[iterator]}/{iterator._num_yielded}"

    def came(self, iterator: Any, asked: bool) -> None:
        """A batch, and whether the ranks asked each other for it."""
        self._at_last_batch[iterator] = self._meetings
        if iterator in self._answered:
            self._off = True
            self._switch.cannot("a sampler gave more batches than its length")
        elif asked and self._partners is not None and not self._off and _was_last(iterator):
            self._answered[iterator] = self._next_question(iterator)
            self._partners.say(self._answered[iterator], False)

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
        self._patience = min(PART * self._store.timeout.total_seconds(), MOST)
        self._last: str | None = None

    def ask(self, question: str, have: bool) -> bool | None:
        """Whether all ranks say that they have one; None where some did not come to say."""
        if not self.say(question, have) and not self._wait(f"{question}/answer"):
            self._store.set(OFF, "1")
            return None
        return bool(self._store.get(f"{question}/answer") == b"1")

    def say(self, question: str, have: bool) -> bool:
        """Tell the others, and wait for none; True for the last rank that does: with it the answer is known."""
        if not have:
            self._store.add(f"{question}/without", 1)
        before, self._last = self._last, question
        if self._store.add(f"{question}/came", 1) < self._size:
            return False
        answer = "0" if self._store.add(f"{question}/without", 0) else "1"
        self._store.set(f"{question}/answer", answer)
        self._forget(before)
        return True

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


def _was_last(iterator: Any) -> bool:
    """Whether this iterator of a loader certainly has no batch after the one that it gave."""
    if iterator._dataset_kind != sys.modules["torch.utils.data.dataloader"]._DatasetKind.Map:
        return False
    outstanding = getattr(iterator, "_tasks_outstanding", None)  # of workers: a batch is ordered for each one given
    if outstanding is not None:
        return bool(outstanding == 0)
    indices = iterator._index_sampler
    rows = indices.sampler if _is_of_torch(indices, ("BatchSampler",)) else indices
    return _is_of_torch(rows, OF_KNOWN_LENGTH) and len(indices) == iterator._num_yielded


def _is_of_torch(sampler: Any, names: tuple[str, ...]) -> bool:
    kind = type(sampler)
    return kind.__name__ in names and kind.__module__.startswith("torch.utils.data.")


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
            came(self, asked is not None)
            return batch

        return following

    def make_reset(original: Callable[..., Any]) -> Callable[..., Any]:
        def reset(self: Any, *args: Any, **kwargs: Any) -> Any:
            begins(self)
            return original(self, *args, **kwargs)

        return reset

    replace(kind, "__next__", make)
    replace(kind, "_reset", make_reset)
