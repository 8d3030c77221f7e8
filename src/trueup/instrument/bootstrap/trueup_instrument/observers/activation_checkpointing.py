"""Activation checkpointing that is set up before training: wrapped modules and Hugging Face's switch.

Calls of torch.utils.checkpoint within a forward are seen in the sampled steps, not here.
"""

from __future__ import annotations

from trueup_instrument import modules, patching
from trueup_instrument.announcements import Announcements, spoken
from trueup_instrument.attributes import plain_attribute
from trueup_instrument.wrappers import compiled_parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from trueup_instrument.session import Session

NAME = "activation_checkpointing"
GROUP = "checkpoint wrapping"
WRAPPING = "torch.distributed.algorithms._checkpoint.checkpoint_wrapper"


def attach(session: Session) -> None:
    say = Announcements(session)
    session.after_torch(NAME, WRAPPING, lambda module: _wrapping(session, say, module))
    session.after_torch(NAME, "torch.distributed._composable", lambda module: _composable(session, say, module))
    session.after_torch(NAME, "transformers.modeling_utils", lambda module: _hugging_face(session, say, module))


def _wrapping(session: Session, say: Announcements, module: ModuleType) -> None:
    def wrapped(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:
        inside = modules.bare(result)
        _tell(say, "checkpoint_wrapper", inside, _is_reentrant(result, module), 1, _is_selective(result))

    def applied(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:
        model = args[0] if args else kwargs["model"]
        wrappers = [part for part in model.modules() if isinstance(part, module.CheckpointWrapper)]
        reentrant = _is_reentrant(wrappers[0], module) if wrappers else None
        selective = _is_selective(wrappers[0]) if wrappers else None
        _tell(say, "apply_activation_checkpointing", model, reentrant, len(wrappers), selective)

    patching.around(session, NAME, module, "checkpoint_wrapper", after=wrapped, group=GROUP)
    patching.around(session, NAME, module, "apply_activation_checkpointing", after=applied, group=GROUP)


def _is_reentrant(wrapper: Any, module: ModuleType) -> bool | None:
    implementation = plain_attribute(wrapper, "checkpoint_impl")
    return None if implementation is None else implementation == module.CheckpointImpl.REENTRANT


def _is_selective(wrapper: Any) -> bool | None:
    """True when the wrapper gives its checkpoint contexts of its own, as selective checkpointing does."""
    function = plain_attribute(wrapper, "checkpoint_fn")
    return None if function is None else (getattr(function, "keywords", None) or {}).get("context_fn") is not None


def _composable(session: Session, say: Announcements, module: ModuleType) -> None:
    """`torch.distributed._composable.checkpoint(module)`, which is never reentrant."""
    if callable(getattr(module, "checkpoint", None)):

        def applied(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:
            _tell(say, "checkpoint_wrapper", args[0] if args else kwargs["module"], False, 1)

        patching.around(session, NAME, module, "checkpoint", after=applied)


def _tell(
    say: Announcements,
    event: str,
    module: Any,
    reentrant: bool | None,
    count: int,
    selective: bool | None = None,
) -> None:
    say.request("checkpointing", "enabled", True, event)
    say.request("checkpointing", "reentrant", reentrant, event)
    say.layer(
        "checkpointing",
        event,
        modules.class_name(module),
        reentrant=reentrant,
        count=count,
        selective=selective,
        compiled_inside=bool(compiled_parts(module)),
    )


def _hugging_face(session: Session, say: Announcements, module: ModuleType) -> None:
    """`gradient_checkpointing_enable`, and its successor of transformers 5, one of which calls the other."""

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        say.request("checkpointing", "enabled", True, "gradient_checkpointing_enable")

    def after(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:
        model = args[0]
        given = (
            args[1] if len(args) > 1 else next((value for value in kwargs.values() if isinstance(value, dict)), None)
        )
        reentrant = _reentrant_of(model)
        say.request("checkpointing", "reentrant", reentrant, "gradient_checkpointing_enable")
        say.layer(
            "checkpointing",
            "gradient_checkpointing_enable",
            modules.class_name(model),
            use_reentrant=reentrant,
            kwargs=spoken(given),
            count=_blocks_switched(model),
        )

    for method in ("gradient_checkpointing_enable", "activation_checkpointing_enable"):
        patching.around(session, NAME, module.PreTrainedModel, method, before, after, group="gradient checkpointing")


def _blocks_switched(model: Any) -> int | None:
    """How many blocks hold the switch, or None where the module around them holds it (transformers before 4.53)."""
    switches = [plain_attribute(block, "gradient_checkpointing") for _, block in modules.blocks_of(model)]
    return None if all(switch is None for switch in switches) else sum(switch is True for switch in switches)


def _reentrant_of(model: Any) -> Any:
    """What the checkpoint function that the model now holds will do; None when it leaves it to torch."""
    for part in model.modules():
        function = part.__dict__.get("_gradient_checkpointing_func")
        if function is not None:
            return (getattr(function, "keywords", None) or {}).get("use_reentrant")
    return None
