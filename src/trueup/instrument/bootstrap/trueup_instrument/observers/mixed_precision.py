"""Gradient scaling. Autocast is entered in every step, so it is seen in the sampled steps."""

from __future__ import annotations

from trueup_instrument import patching
from trueup_instrument.announcements import Announcements

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from trueup_instrument.session import Session

NAME = "mixed_precision"


def attach(session: Session) -> None:
    say = Announcements(session)
    session.after_torch(NAME, "torch.amp.grad_scaler", lambda module: _scalers(session, say, module))


def _scalers(session: Session, say: Announcements, module: ModuleType) -> None:
    """`torch.cuda.amp.GradScaler` and FSDP's sharded one are subclasses that call this constructor."""

    def made(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:
        scaler = args[0]
        say.layer(
            "precision",
            "GradScaler",
            kind=type(scaler).__name__,
            enabled=getattr(scaler, "_enabled", None),
            init_scale=getattr(scaler, "_init_scale", None),
            device=getattr(scaler, "_device", None),
        )

    patching.around(session, NAME, module.GradScaler, "__init__", after=made)
