"""Predictions that Trainer's evaluation keeps on a device are moved to the host as soon as they are many.

What `eval_accumulation_steps` does, by size in place of steps: the same arrays come out of it.
"""

from __future__ import annotations

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

MANY = 64 * 2**20
"""Bytes on a device from which they are moved."""
HOST = ("cpu",)
"""Devices whose memory is that of the host."""


def attach(switch: Switch) -> None:
    switch.after("transformers.trainer_pt_utils", lambda module: _container(switch, module))


def _container(switch: Switch, module: Any) -> None:
    kind = getattr(module, "EvalLoopContainer", None)
    if not hasattr(kind, "add") or not hasattr(kind, "to_cpu_and_numpy"):
        switch.cannot("this release of transformers keeps predictions in another way")
        return
    move = switch.guarded(lambda container: _move(switch, container))

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def add(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            move(self)
            return result

        return add

    replace(kind, "add", make)


def _move(switch: Switch, container: Any) -> None:
    tensors = list(_tensors(container.tensors))
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    if size < MANY:
        return
    if all(tensor.device.type in HOST for tensor in tensors):
        switch.cannot("the predictions lie in the memory of the host already")
        return
    container.to_cpu_and_numpy()
    switch.changed("predictions of an evaluation moved to the host")


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
