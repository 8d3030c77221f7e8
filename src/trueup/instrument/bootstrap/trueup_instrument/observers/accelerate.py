"""Accelerate: what its configuration asks for, what its state then is, and what `prepare` makes of the objects."""

from __future__ import annotations

import os

from trueup_instrument import modules, patching
from trueup_instrument.announcements import Announcements, precision_name, spoken
from trueup_instrument.attributes import plain_attribute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from trueup_instrument.patching import After
    from trueup_instrument.session import Session

NAME = "accelerate"


def attach(session: Session) -> None:
    say = Announcements(session)
    session.after_torch(NAME, "accelerate.accelerator", lambda module: _accelerator(session, say, module.Accelerator))
    session.after_torch(NAME, "accelerate.utils.dataclasses", lambda module: _fsdp_plugin(session, say, module))
    session.after_torch(NAME, "accelerate.utils.memory", lambda module: _batch_size_search(session, say, module))


PLUGIN_SETTINGS = ("use_orig_params", "sharding_strategy", "reshard_after_forward", "cpu_offload")


def _fsdp_plugin(session: Session, say: Announcements, module: ModuleType) -> None:
    """What the plugin was given, before its own defaults from the environment overrule it."""
    kind = getattr(module, "FullyShardedDataParallelPlugin", None)
    if kind is None:
        return

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for name in PLUGIN_SETTINGS:
            if isinstance(kwargs.get(name), (bool, str, int)):
                say.request("sharding", name, kwargs[name], "fsdp_plugin")

    patching.around(session, NAME, kind, "__init__", before)


def _batch_size_search(session: Session, say: Announcements, module: ModuleType) -> None:
    patching.around(
        session,
        NAME,
        module,
        "find_executable_batch_size",
        lambda args, kwargs: say.layer("memory", "find_executable_batch_size"),
        group="find_executable_batch_size",
    )


def _accelerator(session: Session, say: Announcements, kind: Any) -> None:
    arguments = patching.arguments_of(kind.__init__)

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = arguments(args, kwargs)
        _request_sharding(say, given)
        _request_precision(say, given)
        _request_compile(say, given)

    def after(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:
        accelerator = args[0]
        state = accelerator.state
        dynamo = getattr(state, "dynamo_plugin", None)
        say.layer(
            "trainer",
            "Accelerator",
            distributed_type=spoken(state.distributed_type),
            mixed_precision=spoken(state.mixed_precision),
            num_processes=state.num_processes,
            device=str(state.device),
            dynamo_backend=_lower(getattr(dynamo, "backend", None)),
            dynamo_dynamic=getattr(dynamo, "dynamic", None),
            regional=getattr(dynamo, "use_regional_compilation", None),
            gradient_accumulation_steps=accelerator.gradient_accumulation_steps,
            fsdp_version=getattr(getattr(state, "fsdp_plugin", None), "fsdp_version", None),
        )

    patching.around(session, NAME, kind, "__init__", before, after)

    for name in ("prepare", "prepare_model"):
        if hasattr(kind, name):
            patching.around(session, NAME, kind, name, _classes_before, _prepared(say), group="Accelerator.prepare")


# -- requests: read before the constructor, which itself sets some of these variables ----------------------------------


def _request_sharding(say: Announcements, given: dict[str, Any]) -> None:
    plugin = given.get("fsdp_plugin")
    if plugin is not None:
        say.request("sharding", "strategy", f"FSDP{getattr(plugin, 'fsdp_version', 1)}", "fsdp_plugin")
    elif _is_on("ACCELERATE_USE_FSDP"):
        say.request("sharding", "strategy", f"FSDP{os.environ.get('FSDP_VERSION', '1')}", "ACCELERATE_USE_FSDP")
    plugin = given.get("deepspeed_plugin") or given.get("deepspeed_plugins")
    if isinstance(plugin, dict):
        plugin = next(iter(plugin.values()), None)
    if plugin is not None:
        stage = getattr(plugin, "zero_stage", None)
        say.request("sharding", "strategy", f"DeepSpeed ZeRO-{stage}", "deepspeed_plugin")
    elif _is_on("ACCELERATE_USE_DEEPSPEED"):
        stage = os.environ.get("ACCELERATE_DEEPSPEED_ZERO_STAGE", "2")
        say.request("sharding", "strategy", f"DeepSpeed ZeRO-{stage}", "ACCELERATE_USE_DEEPSPEED")
    if getattr(given.get("parallelism_config"), "tp_size", 1) > 1:
        say.request("sharding", "strategy", "TP", "parallelism_config")


def _request_precision(say: Announcements, given: dict[str, Any]) -> None:
    asked, source = given.get("mixed_precision"), "mixed_precision"
    if asked is None:
        asked, source = os.environ.get("ACCELERATE_MIXED_PRECISION"), "ACCELERATE_MIXED_PRECISION"
    asked = spoken(asked)
    if asked not in (None, "no"):
        say.request("precision", "dtype", precision_name(asked), source)


def _request_compile(say: Announcements, given: dict[str, Any]) -> None:
    plugin = given.get("dynamo_plugin")
    if plugin is not None:
        backend, source = plugin.backend, "dynamo_plugin"
        regional, mode = getattr(plugin, "use_regional_compilation", None), getattr(plugin, "mode", None)
        dynamic = getattr(plugin, "dynamic", None)
    else:
        backend, source = given.get("dynamo_backend"), "dynamo_backend"
        if backend is None:
            backend, source = os.environ.get("ACCELERATE_DYNAMO_BACKEND"), "ACCELERATE_DYNAMO_BACKEND"
        regional, mode = _flag("USE_REGIONAL_COMPILATION"), os.environ.get("ACCELERATE_DYNAMO_MODE")
        dynamic = _flag("USE_DYNAMIC")
    if _lower(backend) in (None, "no"):
        return
    say.request("compile", "dynamo_backend", _lower(backend), source)
    say.request("compile", "regional", regional, source)
    say.request("compile", "dynamic", dynamic, source)
    if mode not in (None, "default"):
        say.request("compile", "mode", spoken(mode), source)


def _is_on(variable: str) -> bool:
    return os.environ.get(variable, "").lower() in ("true", "1", "yes")


def _flag(name: str) -> bool | None:
    variable = f"ACCELERATE_DYNAMO_{name}"
    return _is_on(variable) if variable in os.environ else None


def _lower(value: Any) -> Any:
    value = spoken(value)
    return value.lower() if isinstance(value, str) else value


# -- prepare -----------------------------------------------------------------------------------------------------------


def _classes_before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    return [_class_of(thing) for thing in args[1:]]


def _prepared(say: Announcements) -> After:
    def prepared(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], before: list[str]) -> None:
        results = result if isinstance(result, (tuple, list)) else (result,)
        say.layer(
            "trainer",
            "Accelerator.prepare",
            ", ".join(before),
            models=sum(map(_is_model, (*args[1:], kwargs.get("model")))),
            out=[type(thing).__name__ for thing in results],
            distributed_type=spoken(args[0].state.distributed_type),
        )

    return prepared


def _class_of(thing: Any) -> str:
    return modules.class_name(thing) if _is_model(thing) else type(thing).__name__


def _is_model(thing: Any) -> bool:
    return plain_attribute(thing, "_modules") is not None
