"""`compile=off` runs what was handed to torch.compile as plain Python; a backend's name compiles it with that one.

Off is Dynamo's own stance `force_eager`, and modules are not wrapped (`uncompiled.py`). A backend leaves
`OptimizedModule`, `_orig_mod` and `Module.compile` as they are. It is given at the one function behind torch.compile,
since a forced backend of a stance loses `fullgraph`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys

from trueup_instrument.announcements import spoken
from trueup_instrument.appliers import uncompiled
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

OFF = "off"
OWN_COMPILES = "torch.nn.attention"
"""flex_attention compiles itself when it is called outside a graph: that is attention, and of a backend of its own."""


def attach(switch: Switch) -> None:
    switch.after("torch._dynamo.eval_frame", lambda module: _dynamo(switch, module))
    if switch.value == OFF:
        switch.after("torch._dynamo.compiled_autograd", lambda module: _backward(switch, module))


def _dynamo(switch: Switch, module: Any) -> None:
    if not hasattr(module, "DynamoStance") or not hasattr(module, "_set_stance"):
        switch.cannot("this torch has no stances of the compiler (they came with 2.6)")
        return
    if switch.value == OFF:
        module._stance = module.DynamoStance("force_eager")
        uncompiled.attach(module)
    replace(module, "_set_stance", lambda original: _kept_stance(switch, module, original))
    replace(module, "optimize", lambda original: _optimize(switch, original))


def _backward(switch: Switch, module: Any) -> None:
    """The context of compiled autograd: under the stance it leaves the backward pass to the engine, as torch has it."""
    tell = switch.guarded(lambda: switch.changed("the backward pass runs eager", "compiled autograd"))
    knows_stances = hasattr(module, "compiled_autograd_enabled_force_eager")

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def _enable(*args: Any, **kwargs: Any) -> Any:
            tell()
            return original(*args, **kwargs) if knows_stances else contextlib.nullcontext()

        return _enable

    replace(module, "_enable", make)


def _kept_stance(switch: Switch, module: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    """The program may set a stance of its own: it must not bring back what was switched off, nor another backend."""

    def set_stance(stance: Any) -> Any:
        if switch.value == OFF:
            return original(module._stance)
        if stance.stance == "force_eager":
            stance = dataclasses.replace(stance, stance="default")
        return original(dataclasses.replace(stance, backend=None))

    return set_stance


def _optimize(switch: Switch, original: Callable[..., Any]) -> Callable[..., Any]:
    tell = switch.guarded(_tell)

    def optimize(*args: Any, **kwargs: Any) -> Any:
        backend = args[0] if args else kwargs.get("backend", "inductor")
        if kwargs.get("disable") or _is_own_compile():
            return original(*args, **kwargs)
        tell(switch, backend)
        if switch.value in (OFF, _name(backend)):
            return original(*args, **kwargs)
        kwargs.pop("backend", None)
        return original(switch.value, *args[1:], **kwargs)

    return optimize


def _tell(switch: Switch, backend: Any) -> None:
    if switch.value == OFF:
        switch.changed("runs eager", _name(backend))
    elif _name(backend) != switch.value:
        switch.changed(f"backend {_name(backend)} replaced by {switch.value}")
    else:
        switch.changed(f"backend is {switch.value} as it was")


def _name(backend: Any) -> Any:
    """The backend's name, of a string, a function or the object that torch.compile makes of either."""
    return getattr(backend, "compiler_name", None) or spoken(backend)


def _is_own_compile() -> bool:
    """Whether the function that calls torch.compile is one of attention's own; observers may stand in between."""
    frame: FrameType | None
    frame, name = sys._getframe(2), "torch"
    while frame is not None and (name == "torch" or name.startswith(__name__.partition(".")[0])):
        # mypy takes the frame on the right for the one on the left
        frame, name = frame.f_back, frame.f_globals.get("__name__") or ""  # type: ignore[union-attr]
    return name.startswith(OWN_COMPILES)
