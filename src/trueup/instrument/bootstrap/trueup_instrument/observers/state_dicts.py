"""What loading a state dict left out: missing keys, keys that nothing took, modules that stayed as they were, and how
much host memory the model took."""

from __future__ import annotations

from trueup_instrument import modules, patching
from trueup_instrument.announcements import Announcements, calling_library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.session import Session

NAME = "state_dicts"
NAMED = 10
OF_WRAPPER = "_orig_mod."
FILES = (("torch.serialization", "load"), ("safetensors.torch", "load_file"))
"""What reads a state dict from a file: module and function."""
CONTAINERS = ("ModuleList", "ModuleDict", "Sequential")
"""Classes that tell nothing of what they hold; their parts are counted instead."""


def attach(session: Session) -> None:
    say = Announcements(session)
    files = _Files()
    for name, function in FILES:
        session.after_torch(NAME, name, files.watch(session, function))
    session.after_torch(NAME, "torch.nn.modules.module", lambda module: _loading(session, say, files, module))
    session.after_torch(NAME, "transformers.modeling_utils", lambda module: _pretrained(session, say, module))


class _Files:
    """Whether a state dict was read from a file in which names carry the prefix of torch.compile's wrapper."""

    def __init__(self) -> None:
        self.prefixed = False

    def watch(self, session: Session, function: str) -> Callable[[ModuleType], object]:
        def read(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:
            inner = result.values() if isinstance(result, dict) else ()
            self.prefixed |= any(_of_wrapper(each) for each in (result, *inner) if isinstance(each, dict))

        return lambda module: patching.around(session, NAME, module, function, after=read)


def _of_wrapper(state: dict[Any, Any]) -> bool:
    return any(isinstance(name, str) and OF_WRAPPER in name for name in state)


def _loading(session: Session, say: Announcements, files: _Files, module: ModuleType) -> None:
    arguments = patching.arguments_of(module.Module.load_state_dict)

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[tuple[str, ...]], dict[str, int]]:
        """`assign=True` puts a parameter of its own under each name."""
        given = arguments(args, kwargs)
        shared = modules.shared_parameters(args[0]) if given.get("assign") else []
        state = given.get("state_dict")
        return shared, _untouched(args[0], state) if files.prefixed and isinstance(state, dict) else {}

    def loaded(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:
        if result is None or not hasattr(result, "missing_keys"):
            return
        shared, untouched = seen or ([], {})
        given = arguments(args, kwargs)
        _tell(
            say,
            args[0],
            result.missing_keys,
            result.unexpected_keys,
            strict=given.get("strict"),
            given=len(given["state_dict"]) if isinstance(given.get("state_dict"), dict) else None,
            come_apart=modules.come_apart(args[0], shared),
            prefixed_file=files.prefixed,
            untouched=untouched,
            by=calling_library(),
        )

    patching.around(session, NAME, module.Module, "load_state_dict", before, loaded, group="load_state_dict")


def _untouched(model: Any, state: dict[str, Any]) -> dict[str, int]:
    """Class name → number of the outermost modules of which `state` holds no tensor but their own.

    A program that puts what fits into `model.state_dict()` and loads that gives the model its own tensors back.
    """
    filled = {
        tensor.data_ptr()
        for name, tensor in _tensors(model)
        if hasattr(state.get(name), "data_ptr") and state[name].data_ptr() != tensor.data_ptr()
    }
    found: dict[str, int] = {}
    skipped: set[str] = set()
    for name, module in model.named_modules():
        if name.rpartition(".")[0] in skipped and name:
            skipped.add(name)
            continue
        if name and modules.class_name(module) in CONTAINERS:
            continue
        own = [tensor.data_ptr() for _, tensor in _tensors(module)]
        if own and filled.isdisjoint(own):
            skipped.add(name)
            kind = modules.class_name(module)
            found[kind] = found.get(kind, 0) + 1
    return found


def _tensors(module: Any) -> Iterable[tuple[str, Any]]:
    """Parameters under each of their names. Those without memory of their own (meta, shards) are left out."""
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if parameter.device.type != "meta" and not hasattr(parameter, "_local_tensor"):
            yield name, parameter


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
