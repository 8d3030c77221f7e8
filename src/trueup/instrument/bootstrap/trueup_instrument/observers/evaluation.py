"""What the evaluation loop of Hugging Face's Trainer keeps on the device until it has seen the whole set."""

from __future__ import annotations

from trueup_instrument import modules, patching
from trueup_instrument.announcements import Announcements, spoken

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType
    from typing import Any

    from trueup_instrument.session import Session

NAME = "evaluation"
LOOP = "evaluation_loop"
TOLD_AGAIN = 1.25
"""A later evaluation is told of when it kept that many times what the one told last did."""


def attach(session: Session) -> None:
    say = Announcements(session)
    kept = _Kept(say)
    session.after_torch(NAME, "transformers.trainer_pt_utils", lambda module: _container(session, kept, module))
    session.after_torch(NAME, "transformers.trainer", lambda module: _loop(session, kept, module.Trainer))
    session.at_end(session.guarded(NAME, kept.tell))


class _Kept:
    """The tensors that the loop holds at once, of the container that holds most: the predictions."""

    def __init__(self, say: Announcements) -> None:
        self._say = say
        self._trainer: Any = None
        self._told = 0
        self._held: dict[int, int] = {}
        """id(container) → batches since it was last emptied."""
        self._begin(None)

    def _begin(self, trainer: Any) -> None:
        self._trainer = trainer
        self._held.clear()
        self.bytes = self.batches = 0
        self.shape: list[int] = []
        self.dtype = self.device = ""

    def begins(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._begin(args[0])

    def will_add(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        return getattr(args[0], "tensors", None) is None

    def added(self, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], was_empty: bool) -> None:
        container = args[0]
        batches = self._held[id(container)] = 1 if was_empty else self._held.get(id(container), 0) + 1
        tensors = list(_tensors(container.tensors))
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        if self._trainer is not None and size > self.bytes:
            largest = max(_tensors(args[1] if len(args) > 1 else kwargs.get("tensors")), key=lambda one: one.numel())
            self.bytes, self.batches = size, batches
            self.shape, self.dtype, self.device = list(largest.shape), spoken(largest.dtype), largest.device.type

    def ended(self, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:
        self.tell(finished=True)

    def tell(self, finished: bool = False) -> None:
        """Also of a loop that an exception ended."""
        trainer = self._trainer
        if trainer is None:
            return
        if self.bytes > TOLD_AGAIN * self._told:
            self._told = self.bytes
            model = getattr(trainer, "model", None)
            self._say.layer(
                "trainer",
                LOOP,
                modules.class_name(model) if model is not None else None,
                kept_bytes=self.bytes,
                batches=self.batches,
                batch_shape=self.shape,
                dtype=self.dtype,
                device=self.device,
                eval_accumulation_steps=getattr(trainer.args, "eval_accumulation_steps", None),
                preprocessed=getattr(trainer, "preprocess_logits_for_metrics", None) is not None,
                finished=finished,
            )
        self._begin(None)


def _tensors(value: Any) -> Iterator[Any]:
    """The tensors in nested lists, tuples and mappings."""
    if hasattr(value, "element_size"):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _container(session: Session, kept: _Kept, module: ModuleType) -> None:
    kind = getattr(module, "EvalLoopContainer", None)  # transformers 4.41 and newer
    if kind is not None:
        patching.around(session, NAME, kind, "add", kept.will_add, kept.added)


def _loop(session: Session, kept: _Kept, kind: Any) -> None:
    patching.around(session, NAME, kind, LOOP, kept.begins, kept.ended, group=LOOP)
