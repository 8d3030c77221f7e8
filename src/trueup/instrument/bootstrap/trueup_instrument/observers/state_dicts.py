"""What loading a state dict left out: missing keys, keys that nothing took, and how much host memory the model took."""

from __future__ import annotations

from trueup_instrument import modules, patching
from trueup_instrument.announcements import Announcements, calling_library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from types import ModuleType
    from typing import Any

    from trueup_instrument.session import Session

NAME = "state_dicts"
NAMED = 10


def attach(session: Session) -> None:
    say = Announcements(session)
    session.after_torch(NAME, "torch.nn.modules.module", lambda module: _loading(session, say, module))
    session.after_torch(NAME, "transformers.modeling_utils", lambda module: _pretrained(session, say, module))


def _loading(session: Session, say: Announcements, module: ModuleType) -> None:
    arguments = patching.arguments_of(module.Module.load_state_dict)

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, ...]]:
        """`assign=True` puts a parameter of its own under each name."""
        return modules.shared_parameters(args[0]) if arguments(args, kwargs).get("assign") else []

    def loaded(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], shared: list[tuple[str, ...]]) -> None:
        if result is None or not hasattr(result, "missing_keys"):
            return
        given = arguments(args, kwargs)
        _tell(
            say,
            args[0],
            result.missing_keys,
            result.unexpected_keys,
            strict=given.get("strict"),
            given=len(given["state_dict"]) if isinstance(given.get("state_dict"), dict) else None,
            come_apart=modules.come_apart(args[0], shared or []),
            by=calling_library(),
        )

    patching.around(session, NAME, module.Module, "load_state_dict", before, loaded, group="load_state_dict")


def _pretrained(session: Session, say: Announcements, module: ModuleType) -> None:
    """`from_pretrained` loads by functions of its own, which tell what they left out."""
    kind = module.PreTrainedModel

    def finalized(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:  # transformers 5
        info, model = (
            result,
            next(value for value in (*args, *kwargs.values()) if hasattr(type(value), "named_parameters")),
        )
        _tell(
            say,
            model,
            info.missing_keys,
            info.unexpected_keys,
            mismatched=len(getattr(info, "mismatched_keys", ())),
            by="from_pretrained",
        )

    def loaded(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:  # transformers 4
        if isinstance(result, tuple) and len(result) > 3 and hasattr(type(result[0]), "named_parameters"):
            model, missing, unexpected, mismatched = result[:4]
            _tell(say, model, missing, unexpected, mismatched=len(mismatched), by="from_pretrained")

    if hasattr(kind, "_finalize_model_loading"):
        patching.around(session, NAME, kind, "_finalize_model_loading", after=finalized)
    else:
        patching.around(session, NAME, kind, "_load_pretrained_model", after=loaded)


def _tell(
    say: Announcements, module: Any, missing: Collection[str], unexpected: Collection[str], **detail: Any
) -> None:
    say.layer(
        "trainer",
        "load_state_dict",
        modules.class_name(module),
        missing=len(missing),
        unexpected=len(unexpected),
        missing_names=[str(name) for name in sorted(missing)[:NAMED]],
        unexpected_names=[str(name) for name in sorted(unexpected)[:NAMED]],
        **_bytes(module),
        **detail,
    )


def _bytes(module: Any) -> dict[str, int]:
    """`host_bytes`: of parameters that this process holds in host memory; `total_bytes`: of whole parameters."""
    held = total = 0
    for parameter in module.parameters():
        total += parameter.numel() * parameter.element_size()
        local = getattr(parameter, "_local_tensor", parameter)
        if local.device.type == "cpu":
            held += local.numel() * local.element_size()
    return {"host_bytes": held, "total_bytes": total}
