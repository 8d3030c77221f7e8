"""PEFT adapters: which kind, on what, and how much of the model they leave trainable."""

from __future__ import annotations

from trueup_instrument import modules, patching
from trueup_instrument.announcements import Announcements, spoken

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from trueup_instrument.patching import After, Arguments, Before
    from trueup_instrument.session import Session

NAME = "peft"
GROUP = "peft"


def attach(session: Session) -> None:
    say = Announcements(session)
    session.after_torch(NAME, "peft", lambda module: _adapters(session, say, module))


def _adapters(session: Session, say: Announcements, peft: ModuleType) -> None:
    for name in ("get_peft_model", "inject_adapter_in_model"):
        if hasattr(peft, name):
            arguments = patching.arguments_of(getattr(peft, name))
            patching.around(session, NAME, peft, name, *_looks(say, name, arguments), group=GROUP)
    if hasattr(peft, "PeftModel"):
        arguments = patching.arguments_of(peft.PeftModel.__init__)
        patching.around(session, NAME, peft.PeftModel, "__init__", *_looks(say, "PeftModel", arguments), group=GROUP)
        for name in ("add_adapter", "load_adapter", "set_adapter"):
            _further_adapters(session, say, peft.PeftModel, name)
    if hasattr(peft, "prepare_model_for_kbit_training"):
        arguments = patching.arguments_of(peft.prepare_model_for_kbit_training)

        def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
            return _half_elements(arguments(args, kwargs).get("model"))

        def prepared(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], halves: int) -> None:
            checkpointing = arguments(args, kwargs).get("use_gradient_checkpointing")
            say.layer(
                "adapter",
                "prepare_model_for_kbit_training",
                modules.class_name(model),
                use_gradient_checkpointing=checkpointing,
                upcast=halves - _half_elements(model),
                total=sum(parameter.numel() for parameter in model.parameters()),
            )

        patching.around(session, NAME, peft, "prepare_model_for_kbit_training", before, prepared)


def _further_adapters(session: Session, say: Announcements, kind: Any, name: str) -> None:
    """Adapters beside the first: a new one stays frozen until it is chosen, which freezes the others."""
    if not hasattr(kind, name):
        return
    arguments = patching.arguments_of(getattr(kind, name))

    def after(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:
        given = arguments(args, kwargs)
        adapter, trainable = given.get("adapter_name"), given.get("is_trainable")
        say.layer("adapter", name, modules.class_name(args[0]), adapter=spoken(adapter), is_trainable=trainable)

    patching.around(session, NAME, kind, name, after=after, group=GROUP)


def _half_elements(model: Any) -> int:
    """Elements of the parameters in half precision."""
    parameters = model.parameters() if hasattr(type(model), "parameters") else ()
    return sum(parameter.numel() for parameter in parameters if spoken(parameter.dtype) in ("float16", "bfloat16"))


def _looks(say: Announcements, via: str, arguments: Arguments) -> tuple[Before, After]:
    """Before: what was asked for. After: what the model then holds."""

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
        given = arguments(args, kwargs)
        config = given.get("peft_config")
        for setting, attribute in (("type", "peft_type"), ("target_modules", "target_modules"), ("r", "r")):
            say.request("adapter", setting, _plain(getattr(config, attribute, None)), via)
        target = given.get("model")
        return modules.class_name(target) if target is not None else None

    def after(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None) -> None:
        config = arguments(args, kwargs)["peft_config"]
        model = args[0] if result is None else result  # a constructor gives nothing back
        say.layer(
            "adapter",
            "get_peft_model",
            name,
            via=via,
            peft_type=_plain(getattr(config, "peft_type", None)),
            r=getattr(config, "r", None),
            target_modules=_plain(getattr(config, "target_modules", None)),
            modules_to_save=_plain(getattr(config, "modules_to_save", None)),
            inference_mode=getattr(config, "inference_mode", None),
            **_counts(model),
        )

    return before, after


def _counts(model: Any) -> dict[str, int]:
    trainable = total = tensors = 0
    for parameter in model.parameters():
        elements = parameter.numel()
        total += elements
        if parameter.requires_grad:
            trainable += elements
            tensors += 1
    return {"trainable": trainable, "total": total, "trainable_tensors": tensors}


def _plain(value: Any) -> Any:
    """Sets in order, so that runs can be compared."""
    value = spoken(value)
    return sorted(value, key=str) if isinstance(value, list) else value
