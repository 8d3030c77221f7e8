"""`data=only:17` gives the job its 17th batch again and again, `without:17` leaves it out, `length:128` cuts all.

Batches are those that a DataLoader gives while gradients are recorded, counted from 1 for each dataset: evaluations get
what they would. `17-20` is four batches, given in turn. What is cut is the axis that token ids and their labels, masks
and positions share.
"""

from __future__ import annotations

import copy
import sys

from trueup_instrument import shapes
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

IGNORED = -100
"""The label that torch's cross-entropy leaves out by default."""
MASKS = ("attention_mask", "padding_mask")
LABELS = ("labels", "label", "targets", "target")
UNCUT = ("cu_seqlens", "cu_seq_lens_q", "cu_seq_lens_k", "cu_seqlens_q", "cu_seqlens_k")
"""Places in a row of packed documents: a cut row has others."""


def attach(switch: Switch) -> None:
    first, last = _numbers(switch.parts)
    if first is None or last is None:
        switch.cannot(f"data={switch.value} needs a number: data={switch.value}:17")
        return
    given: Callable[..., Any]
    if switch.value == "length":
        given = _Cut(switch, first).given
    else:
        given = _Chosen(switch, first, last).only if switch.value == "only" else _Chosen(switch, first, last).without
    switch.after("torch.utils.data.dataloader", lambda module: _loaders(module, given))


def _numbers(parts: tuple[str, ...] | None) -> tuple[int | None, int | None]:
    first, _, last = (parts or ("",))[0].partition("-")
    return (int(first), int(last or first)) if first.isdigit() and (last or first).isdigit() else (None, None)


def _loaders(module: ModuleType, given: Callable[[Any, Callable[[], Any]], Any]) -> None:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def __next__(self: Any) -> Any:
            if not sys.modules["torch"].is_grad_enabled():
                return original(self)
            return given(self, lambda: original(self))

        return __next__

    replace(module._BaseDataLoaderIter, "__next__", make)


class _Source:
    """What one dataset has given so far."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.count = 0
        self.shapes: list[str] = []
        self.kept: list[Any] = []
        self.turn = 0
        self.ahead = 0
        """Batches taken from the loader and not given on."""


class _Chosen:
    """Batches number `first` to `last` alone, or all but these."""

    def __init__(self, switch: Switch, first: int, last: int) -> None:
        self._switch = switch
        self._first, self._last = first, last
        self._sources: list[_Source] = []
        self._name = f"batch {first}" if first == last else f"batches {first} to {last}"

    def only(self, iterator: Any, pull: Callable[[], Any]) -> Any:
        source = self._source(iterator)
        if source.count >= self._last:
            self._pass(source, pull)
        while source.count < self._last:
            batch = self._counted(source, pull)
            source.ahead += 1
            if source.count >= self._first:
                source.kept.append(batch)
        source.ahead -= 1
        if source.turn == 0:
            self._switch.has_parts(source.shapes)
            self._switch.changed(f"{self._name} of each dataset again and again", type(source.dataset).__name__)
        source.turn += 1
        return _copied(source.kept[(source.turn - 1) % len(source.kept)])

    def without(self, iterator: Any, pull: Callable[[], Any]) -> Any:
        source = self._source(iterator)
        batch = self._counted(source, pull)
        while self._first <= source.count <= self._last:
            self._switch.changed(f"without {self._name}", type(source.dataset).__name__)
            batch = self._counted(source, pull)
            self._switch.has_parts(source.shapes)
        return batch

    @staticmethod
    def _pass(source: _Source, pull: Callable[[], Any]) -> None:
        """Take one that is not used, so that the loader ends after as many as it would have given."""
        try:
            pull()
        except StopIteration:
            if source.ahead == 0:
                raise
            return
        except Exception:  # of a batch that cannot be made
            pass
        source.ahead += 1

    def _source(self, iterator: Any) -> _Source:
        dataset = getattr(iterator, "_dataset", None)
        for source in self._sources:
            if source.dataset is dataset:
                return source
        self._sources.append(_Source(dataset))
        return self._sources[-1]

    def _counted(self, source: _Source, pull: Callable[[], Any]) -> Any:
        """An exception of the loader counts as its batch: the next one is another."""
        try:
            batch = pull()
        except StopIteration:
            raise
        except Exception:
            source.count += 1
            raise
        source.count += 1
        source.shapes.append(_shape(batch))
        return batch


def _copied(batch: Any) -> Any:
    """Programs change batches in place, as by `batch.pop("labels")`."""
    try:
        return copy.deepcopy(batch)
    except Exception:
        return batch


def _shape(batch: Any) -> str:
    """`8x32`, of the token ids or else of the first tensor."""
    tensor = next(iter([each for each in _tensors(batch) if not each.is_floating_point()] or _tensors(batch)), None)
    return "x".join(map(str, tensor.shape)) if tensor is not None else "?"


class _Cut:
    """Every batch cut to `length` tokens."""

    def __init__(self, switch: Switch, length: int) -> None:
        self._switch = switch
        self._length = length
        self._lengths: list[str] = []
        """Shapes of the first batch and of each that is longer than those before."""
        self._longest = 0
        self._cut = switch.guarded(self._of)

    def given(self, iterator: Any, pull: Callable[[], Any]) -> Any:
        batch = pull()
        cut = self._cut(batch)
        return batch if cut is None else cut

    def _of(self, batch: Any) -> Any:
        length = shared_length(batch)
        if length is None:
            self._switch.cannot("no axis of tokens is shared by the tensors of a batch")
            return batch
        if length > self._longest:
            self._longest = length
            self._lengths.append(_shape(batch))
            self._switch.has_parts(self._lengths)
        if length <= self._length:
            return batch
        start = length - self._length if _is_padded_left(batch) else 0
        cut = _mapped(batch, lambda tensor: _narrowed(tensor, length, start, self._length))
        if _has_no_label(cut) and not _has_no_label(batch):
            self._switch.cannot("a batch has labels beyond its cut only")
            return batch
        self._switch.changed(f"batches cut to {self._length} tokens")
        return cut


def shared_length(batch: Any) -> int | None:
    """The length of the axis of tokens: the second one of ids, or that of two tensors; None where there is none."""
    if any(name in UNCUT for name in _names(batch)):
        return None
    size = shapes.batch_size_of(batch)
    tensors = [each for each in _tensors(batch) if each.dim() >= 2]
    if size is not None and any(size[1] == each.shape[1] for each in tensors):
        return size[1]
    lengths = [int(each.shape[1]) for each in tensors]
    return next((each for each in lengths if lengths.count(each) > 1), None)


def _narrowed(tensor: Any, was: int, start: int, length: int) -> Any:
    for axis in range(1, tensor.dim()):
        if tensor.shape[axis] == was:
            tensor = tensor.narrow(axis, start, length)
    return tensor


def _is_padded_left(batch: Any) -> bool:
    mask: Any = next((batch[name] for name in MASKS if name in _names(batch)), None)
    if not hasattr(mask, "dim") or mask.dim() != 2:
        return False
    return bool(mask[:, -1].all()) and not bool(mask[:, 0].all())


def _has_no_label(batch: Any) -> bool:
    labels: Any = next((batch[name] for name in LABELS if name in _names(batch)), None)
    return hasattr(labels, "dim") and labels.dim() >= 2 and bool((labels == IGNORED).all())


# -- the tensors of a batch --------------------------------------------------------------------------------------------


def _names(batch: Any) -> list[str]:
    return list(batch.keys()) if hasattr(batch, "keys") and hasattr(batch, "__getitem__") else []


def _tensors(batch: Any) -> list[Any]:
    return list(_walked(batch))


def _walked(batch: Any) -> Iterator[Any]:
    if isinstance(batch, sys.modules["torch"].Tensor):
        yield batch
    elif _names(batch):
        for name in _names(batch):
            yield from _walked(batch[name])
    elif isinstance(batch, (list, tuple)):
        for each in batch:
            yield from _walked(each)


def _mapped(batch: Any, change: Callable[[Any], Any]) -> Any:
    """A batch of the same kind with `change(tensor)` in the place of each tensor."""
    if isinstance(batch, sys.modules["torch"].Tensor):
        return change(batch)
    if _names(batch):
        new = copy.copy(batch)
        for name in _names(batch):
            new[name] = _mapped(batch[name], change)
        return new
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_mapped(each, change) for each in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(_mapped(each, change) for each in batch)
    return batch
