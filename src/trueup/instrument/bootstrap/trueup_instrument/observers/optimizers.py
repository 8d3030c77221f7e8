"""Optimizers as they are made, and which of them are alive."""

from __future__ import annotations

import gc
import sys
import weakref

from trueup_instrument import patching
from trueup_instrument.announcements import Announcements, spoken

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from trueup_instrument.session import Session

NAME = "optimizers"
OPTIONS = ("lr", "weight_decay", "momentum", "betas", "fused", "foreach", "capturable")


def attach(session: Session) -> None:
    session.optimizers = weakref.WeakSet()
    say = Announcements(session)
    session.after_torch(NAME, "torch.optim.optimizer", lambda module: _constructor(session, say, module))


def _constructor(session: Session, say: Announcements, module: ModuleType) -> None:
    def made(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:
        optimizer = args[0]
        session.optimizers.add(optimizer)
        tensors = [tensor for group in optimizer.param_groups for tensor in group["params"]]
        say.layer(
            "trainer",
            "Optimizer",
            type(optimizer).__name__,
            groups=len(optimizer.param_groups),
            tensors=len(tensors),
            elements=sum(tensor.numel() for tensor in tensors),
            **{name: _option(optimizer.defaults[name]) for name in OPTIONS if name in optimizer.defaults},
        )

    patching.around(session, NAME, module.Optimizer, "__init__", after=made, group="Optimizer")


def find_those_alive(session: Session) -> None:
    """Take in the optimizers that were made before observation began."""
    module = sys.modules.get("torch.optim.optimizer")
    if module is not None:
        kind = module.Optimizer
        session.optimizers.update(thing for thing in gc.get_objects() if issubclass(type(thing), kind))


def _option(value: Any) -> Any:
    """A learning rate held in a tensor is not read: that could wait for a device."""
    return "tensor" if hasattr(value, "dim") else spoken(value)
