"""When a model is complete: where its optimizer is made, DDP or FSDP wraps it, or it is called first."""

from __future__ import annotations

import functools

from trueup_instrument.appliers.binding import Binding
from trueup_instrument.appliers.forwards import around_forwards
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

    Act = Callable[[Any, str | None], object]
    """Of a model, or what the wrapper was given of it, and the name of the wrapper that it is about to get."""

WRAPPING = (
    ("torch.nn.parallel.distributed", "DistributedDataParallel", "__init__", 1),
    ("torch.distributed.fsdp.fully_sharded_data_parallel", "FullyShardedDataParallel", "__init__", 1),
    ("torch.distributed.fsdp._fully_shard._fully_shard", None, "fully_shard", 0),
)
"""Module, class, function, place of the model among its arguments: what fixes the dtype of gradients."""


def when_complete(switch: Switch, act: Act) -> None:
    """Call `act(model, wrapper)`, guarded, at each of these places: again for a model that comes to several of them."""
    act = switch.guarded(act)
    binding = Binding(switch)  # first, so that it follows what around_forwards follows

    @switch.guarded
    def of_optimizer(optimizer: Any) -> None:
        given = {id(each) for group in optimizer.param_groups for each in group["params"]}
        for model in binding.models():
            if any(id(each) in given for each in model.parameters()):
                act(model, None)

    def made(original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            of_optimizer(self)

        return __init__

    def wrapped(place: int, wrapper: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            act(args[place] if len(args) > place else kwargs.get("module"), wrapper)
            return original(*args, **kwargs)

        return call

    switch.after("torch.optim.optimizer", lambda module: replace(module.Optimizer, "__init__", made))

    def wrap(kind: str | None, name: str, place: int, module: Any) -> None:
        replace(getattr(module, kind) if kind else module, name, functools.partial(wrapped, place, kind or name))

    for module, kind, name, place in WRAPPING:
        switch.after(module, functools.partial(wrap, kind, name, place))

    def called(model: Any) -> None:
        act(model, None)

    around_forwards(switch, called)
