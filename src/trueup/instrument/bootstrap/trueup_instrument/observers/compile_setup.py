"""What is handed to torch.compile: whole models, blocks, functions, and what already sits inside them."""

from __future__ import annotations

import types

from trueup_instrument import conditions, dynamo, modules, patching
from trueup_instrument.announcements import Announcements, calling_library, spoken
from trueup_instrument.wrappers import compiled_parts, wrappers_inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from trueup_instrument.session import Session

NAME = "compile_setup"
GROUP = "compile"
CAPTURED = "compiled_autograd"
REGIONAL = ("compile_regions", "compile_regions_fsdp2", "compile_regions_deepspeed")


def attach(session: Session) -> None:
    say = Announcements(session)
    names: list[str] = []
    session.imports.after("torch", session.guarded(NAME, lambda torch: _torch(session, say, names, torch)))
    session.after_torch(NAME, "torch._dynamo.eval_frame", dynamo.hide_own_code)
    session.after_torch(NAME, "torch._dynamo.compiled_autograd", lambda module: _backward(session, say, module))
    session.after_torch(NAME, "accelerate.utils.other", lambda module: _accelerate(session, say, names, module))


def _torch(session: Session, say: Announcements, names: list[str], torch: ModuleType) -> None:
    def compiled(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:
        """`torch.compile(mode=...)` has no target yet: the decorator it returns calls it again, with one."""
        target = args[0] if args else kwargs.get("model")
        if target is not None:
            tell("torch.compile", result, target, kwargs)

    def compiled_in_place(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:
        tell("Module.compile", args[0], args[0], kwargs)

    def tell(event: str, result: Any, target: Any, options: dict[str, Any]) -> None:
        if result is target and target.__dict__.get("_compiled_call_impl") is None:  # a remedy compiled its blocks
            _tell_regions(say, names, target, options, compiled_parts(target))
        else:
            _tell(say, names, event, target, options, torch)

    def stance(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:
        asked = args[0] if args else kwargs.get("stance", "default")
        say.layer("compile", "set_stance", None, stance=spoken(asked))

    patching.around(session, NAME, torch, "compile", after=compiled, group=GROUP)
    patching.around(session, NAME, torch.nn.Module, "compile", after=compiled_in_place, group=GROUP)
    patching.around(session, NAME, torch.compiler, "set_stance", after=stance)


def _backward(session: Session, say: Announcements, module: ModuleType) -> None:
    """A context that programs enter at each step, and Dynamo itself where its configuration asks for it: told once."""
    told: list[str] = []

    def entered(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not told:
            told.append(CAPTURED)
            say.layer("compile", CAPTURED, None, by=calling_library())

    patching.around(session, NAME, module, "_enable", before=entered)


def _accelerate(session: Session, say: Announcements, names: list[str], module: ModuleType) -> None:
    """They compile block after block: one event with their number."""

    def compiled(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:
        target = args[0] if args else kwargs["module"]
        _tell_regions(say, names, target, kwargs, compiled_parts(result if result is not None else target))

    for name in REGIONAL:
        patching.around(session, NAME, module, name, after=compiled, group=GROUP)


def _tell_regions(say: Announcements, names: list[str], target: Any, options: dict[str, Any], number: int) -> None:
    _request(say, names, modules.class_name(target), options)
    say.layer("compile", "compile_regions", modules.class_name(target), compiled=number, **_options(options))


def _tell(
    say: Announcements, names: list[str], event: str, target: Any, options: dict[str, Any], torch: ModuleType
) -> None:
    library = calling_library()
    kind, name, module = _what(target, torch.nn.Module)
    if library == "torch" and name.startswith("CompiledAutograd"):
        return  # the graph of a backward pass, which nobody asked for by itself
    if module is not None or library is None:
        _request(say, names, name, options)
    detail = {"target": kind, "by": library, **_options(options)}
    if module is not None:
        detail.update(_about(module))
    elif kind == "function" and library is None and (switch := conditions.compile_switch()) is not None:
        detail["switch"] = switch
    say.layer("compile", event, name, **detail)


def _what(target: Any, module_class: Any) -> tuple[str, str, Any]:
    """(kind, name, module or None) of what is compiled: a module, a method of one or of another object, a function."""
    if isinstance(target, module_class):
        return "module", modules.class_name(target), target
    owner = getattr(target, "__self__", None)
    if isinstance(target, types.MethodType) or (owner is not None and not isinstance(owner, types.ModuleType)):
        method = getattr(target, "__name__", "?")
        if isinstance(owner, module_class):
            return "method", f"{modules.class_name(owner)}.{method}", owner
        return "method", f"{type(owner).__name__}.{method}", None
    return "function", getattr(target, "__qualname__", None) or type(target).__name__, None


def _about(module: Any) -> dict[str, Any]:
    inner = modules.bare(module)
    blocks = sum("expert" not in name.lower() for name, _ in modules.blocks_of(module))  # experts are parts of a block
    return {
        "class": modules.class_name(module),
        "builtin": str(getattr(type(inner).forward, "__module__", "")).startswith("torch.nn."),
        "blocks_inside": blocks,
        "whole_model": blocks > 0,
        "around": wrappers_inside(module),
    }


def _options(given: dict[str, Any]) -> dict[str, Any]:
    return {
        "backend": spoken(given.get("backend", "inductor")),
        "mode": spoken(given.get("mode")),
        "fullgraph": given.get("fullgraph", False),
        "dynamic": given.get("dynamic"),
        "options": sorted(given.get("options") or ()),
        "disabled": given.get("disable", False),
        "isolated": bool(given.get("isolate_recompiles", False)),
    }


def _request(say: Announcements, names: list[str], name: str, given: dict[str, Any]) -> None:
    if name not in names:
        names.append(name)
        say.request("compile", "module", ", ".join(names), "torch.compile")
    options = _options(given)
    say.request("compile", "backend", options["backend"], "torch.compile")
    say.request("compile", "mode", options["mode"], "torch.compile")
    say.request("compile", "dynamic", options["dynamic"], "torch.compile")
    say.request("compile", "fullgraph", options["fullgraph"] or None, "torch.compile")
