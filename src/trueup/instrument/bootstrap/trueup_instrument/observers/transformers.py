"""Hugging Face transformers: what a model's configuration says about attention, and what TrainingArguments ask for."""

from __future__ import annotations

import os
import weakref

from trueup_instrument import modules, patching
from trueup_instrument.announcements import Announcements, spoken
from trueup_instrument.attributes import plain_attribute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.session import Session

NAME = "transformers"
LOADING = "from_pretrained"

ARGUMENTS = (
    "torch_compile",
    "torch_compile_backend",
    "torch_compile_mode",
    "fsdp",
    "deepspeed",
    "bf16",
    "fp16",
    "tf32",
    "gradient_checkpointing",
    "gradient_checkpointing_kwargs",
    "gradient_accumulation_steps",
    "per_device_train_batch_size",
    "optim",
    "max_steps",
    "max_grad_norm",
    "ddp_find_unused_parameters",
    "use_liger_kernel",
    "auto_find_batch_size",
    "packing",
    "padding_free",
    "activation_offloading",
)
"""Those of TrainingArguments (and of TRL's, which derive from them) that touch the stack."""


def attach(session: Session) -> None:
    say = Announcements(session)
    session.after_torch(NAME, "transformers.modeling_utils", lambda module: _models(session, say, module))
    session.after_torch(NAME, "transformers.trainer", lambda module: _trainer(session, say, module.Trainer))


# -- models ------------------------------------------------------------------------------------------------------------


def _models(session: Session, say: Announcements, module: ModuleType) -> None:
    kind = module.PreTrainedModel
    told = _Told()

    def will_load(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        asked, source = kwargs.get("attn_implementation"), "from_pretrained"
        if asked is None:
            asked, source = _asked_in(kwargs.get("config")), "config"
        say.request("attention", "implementation", spoken(asked), source)
        if kwargs.get("tp_plan") is not None:
            say.request("sharding", "strategy", "TP", "tp_plan")

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        config = args[1] if len(args) > 1 else kwargs.get("config")
        asked = _asked_in(config)
        if not patching.is_inside(LOADING) and not told.is_part(args[0], config):
            say.request("attention", "implementation", spoken(asked), "config")
        return asked

    def after(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], asked: Any) -> None:
        model = args[0]
        config = model.config
        if told.is_part(model, config):
            return
        told.remember(model, config)
        _tell_config(say, model, config, asked)

    def set_before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        asked = args[1] if len(args) > 1 else kwargs.get("attn_implementation")
        say.request("attention", "implementation", spoken(asked), "set_attn_implementation")
        return asked

    def set_after(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], asked: Any) -> None:
        _tell_config(say, args[0], args[0].config, asked)

    patching.around(session, NAME, kind, "from_pretrained", will_load, group=LOADING)
    patching.around(session, NAME, kind, "__init__", before, after)
    patching.around(session, NAME, kind, "set_attn_implementation", set_before, set_after, group="set attention")


class _Told:
    """The model told last: the parts of a model are made with its configuration, after it has begun."""

    def __init__(self) -> None:
        self._config: Callable[[], Any] = lambda: None
        self._kind: type[Any] | None = None

    def is_part(self, model: Any, config: Any) -> bool:
        return config is not None and self._config() is config and type(model) is not self._kind

    def remember(self, model: Any, config: Any) -> None:
        self._config, self._kind = weakref.ref(config), type(model)


def _asked_in(config: Any) -> Any:
    """What was set on a configuration, which is None until a model chooses, unlike the attribute users read."""
    return getattr(config, "_attn_implementation_internal", None)


def _tell_config(say: Announcements, model: Any, config: Any, asked: Any) -> None:
    say.layer(
        "attention",
        "config",
        modules.class_name(model),
        attn_implementation=spoken(getattr(config, "_attn_implementation", None)),
        requested=spoken(asked),
        use_cache=getattr(config, "use_cache", None),
        output_attentions=getattr(config, "output_attentions", None),
        supports_sdpa=plain_attribute(model, "_supports_sdpa"),
    )


# -- Trainer -----------------------------------------------------------------------------------------------------------


def _trainer(session: Session, say: Announcements, kind: Any) -> None:
    given = patching.arguments_of(kind.__init__)

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        options = given(args, kwargs).get("args")
        if options is not None:
            _request(say, options)

    def after(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:
        trainer = args[0]
        model = getattr(trainer, "model", None)
        options = {name: spoken(getattr(trainer.args, name, None)) for name in ARGUMENTS if hasattr(trainer.args, name)}
        say.layer(
            "trainer",
            "Trainer",
            modules.class_name(model) if model is not None else None,
            trainer=type(trainer).__name__,
            args=options,
        )

    patching.around(session, NAME, kind, "__init__", before, after)


def _request(say: Announcements, options: Any) -> None:
    if getattr(options, "torch_compile", False):
        say.request("compile", "torch_compile", True, "TrainingArguments.torch_compile")
        say.request(
            "compile", "backend", spoken(options.torch_compile_backend), "TrainingArguments.torch_compile_backend"
        )
        say.request("compile", "mode", spoken(options.torch_compile_mode), "TrainingArguments.torch_compile_mode")
    if getattr(options, "fsdp", None):
        say.request("sharding", "strategy", f"FSDP{_fsdp_version(options)}", "TrainingArguments.fsdp")
    if getattr(options, "deepspeed", None):
        stage = _zero_stage(options.deepspeed)
        say.request("sharding", "strategy", f"DeepSpeed ZeRO-{stage}", "TrainingArguments.deepspeed")
    for name in ("bf16", "fp16"):
        if getattr(options, name, False):
            say.request("precision", "dtype", name, f"TrainingArguments.{name}")
    if getattr(options, "gradient_checkpointing", False):
        say.request("checkpointing", "enabled", True, "TrainingArguments.gradient_checkpointing")
        asked = (getattr(options, "gradient_checkpointing_kwargs", None) or {}).get("use_reentrant")
        say.request("checkpointing", "reentrant", asked, "TrainingArguments.gradient_checkpointing_kwargs")


def _fsdp_version(options: Any) -> Any:
    """What TrainingArguments hand to accelerate's plugin (transformers 5); else what the configuration says."""
    config = getattr(options, "fsdp_config", None)
    given = getattr(options, "fsdp_plugin_args", None)
    for source, name in ((given, "fsdp_version"), (config, "version"), (config, "fsdp_version")):
        if isinstance(source, dict) and name in source:
            return source[name]
    return os.environ.get("FSDP_VERSION", "1")


def _zero_stage(config: Any) -> Any:
    """The stage in a DeepSpeed configuration given as a mapping; `?` for a file, which is not opened here."""
    zero = config.get("zero_optimization") if isinstance(config, dict) else None
    return zero.get("stage", "?") if isinstance(zero, dict) else "?"
