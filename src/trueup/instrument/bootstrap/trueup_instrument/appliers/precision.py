"""`precision=fp32`: no autocast, no gradient scaling, no low-precision policy, and models that stay in float32.

The requests are refused where they are made: the classes and functions of torch below, and the options of Accelerate
and transformers that would build them. Casts of models and tensors are in `casts.py`. `precision=fp64` is that, and
what `doubles.py` does. With names of modules it is what `module_precision.py` does.
"""

from __future__ import annotations

import os

from trueup_instrument.announcements import spoken
from trueup_instrument.appliers import casts, doubles, module_precision
from trueup_instrument.appliers.replacing import change_arguments, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

POLICIES = (
    ("torch.distributed.fsdp.api", "MixedPrecision"),
    ("torch.distributed.fsdp._fully_shard._fsdp_api", "MixedPrecisionPolicy"),
    ("torch.nn.parallel.distributed", "_MixedPrecision"),
)
FLAGS = ("bf16", "fp16", "bf16_full_eval", "fp16_full_eval")


def attach(switch: Switch) -> None:
    if switch.parts is not None:
        module_precision.attach(switch)
        return
    switch.after("torch.amp.autocast_mode", lambda module: _off(switch, module.autocast, "autocast"))
    switch.after("torch.amp.grad_scaler", lambda module: _off(switch, module.GradScaler, "GradScaler"))
    for module, policy in POLICIES:
        # mypy infers no type of a lambda with a default
        switch.after(module, lambda module, policy=policy: _policy(switch, getattr(module, policy, None)))  # type: ignore[misc]
    switch.after("torch.distributed.algorithms.ddp_comm_hooks.default_hooks", lambda module: _hooks(switch, module))
    switch.after("torch", lambda torch: _float32(switch, torch))
    switch.after("accelerate.state", lambda module: _mixed(switch, module.AcceleratorState))
    switch.after("accelerate.accelerator", lambda module: _mixed(switch, module.Accelerator))
    switch.after("transformers.training_args", lambda module: _arguments(switch, module.TrainingArguments))
    switch.after("transformers.modeling_utils", lambda module: _loading(switch, module.PreTrainedModel))
    casts.attach(switch)
    if switch.value == "fp64":
        doubles.attach(switch)


def _off(switch: Switch, kind: Any, name: str) -> None:
    """torch.cuda's and torch.cpu's own classes, and FSDP's gradient scaler, derive from this one."""

    def change(arguments: dict[str, Any]) -> None:
        if arguments["enabled"]:
            arguments["enabled"] = False
            switch.changed(f"{name} disabled", type(arguments["self"]).__name__)

    change_arguments(switch, kind, "__init__", change)


def _policy(switch: Switch, kind: Any) -> None:
    def change(arguments: dict[str, Any]) -> None:
        for name, value in arguments.items():
            if casts.is_low(value):
                arguments[name] = None
                switch.changed(f"{name} {spoken(value)} left out", kind.__name__)

    if kind is not None:
        change_arguments(switch, kind, "__init__", change)


def _hooks(switch: Switch, module: ModuleType) -> None:
    """Gradients that DDP would send in half precision are sent as they are."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def send(dtype: Any, process_group: Any, bucket: Any) -> Any:
            switch.changed("gradients are sent uncompressed", "DistributedDataParallel")
            return module.allreduce_hook(process_group, bucket)

        return send

    replace(module, "_compress_hook", make)


def _float32(switch: Switch, torch: ModuleType) -> None:
    """Multiplications of float32 in full: the default, which programs change by these functions."""

    def full(arguments: dict[str, Any]) -> None:
        if arguments["precision"] != "highest":
            switch.changed(f"matmul precision {arguments['precision']} refused", "torch")
            arguments["precision"] = "highest"

    change_arguments(switch, torch, "set_float32_matmul_precision", full)

    def allow_tf32(original: Callable[..., Any]) -> Callable[..., Any]:
        def allow(allowed: Any) -> Any:
            if not allowed:
                return original(allowed)
            return switch.changed("TF32 refused", "torch.backends.cuda.matmul")

        return allow

    def fp32_precision(original: Callable[..., Any]) -> Callable[..., Any]:
        def set_precision(backend: str, operation: str, precision: str) -> Any:
            if precision in ("none", "ieee"):
                return original(backend, operation, precision)
            return switch.changed(f"fp32_precision {precision} refused", f"torch.backends.{backend}.{operation}")

        return set_precision

    replace(torch._C, "_set_cublas_allow_tf32", allow_tf32)
    replace(torch._C, "_set_fp32_precision_setter", fp32_precision)


# -- accelerate and transformers ---------------------------------------------------------------------------------------


def _mixed(switch: Switch, kind: Any) -> None:
    def change(arguments: dict[str, Any]) -> None:
        asked = arguments["mixed_precision"] or os.environ.get("ACCELERATE_MIXED_PRECISION")
        arguments["mixed_precision"] = "no"
        handlers = arguments.get("kwargs_handlers")
        if handlers:  # recipes for fp8, with which anything but mixed_precision="fp8" is an error
            arguments["kwargs_handlers"] = [h for h in handlers if not type(h).__name__.endswith("RecipeKwargs")]
        if asked not in (None, "no"):
            switch.changed(f"mixed_precision {spoken(asked)} replaced by no", kind.__name__)

    change_arguments(switch, kind, "__init__", change)


def _arguments(switch: Switch, kind: Any) -> None:
    """Flags that the dataclass was given; TRL's arguments and others derive from this class."""

    def refuse(arguments: Any) -> None:
        for flag in FLAGS:
            if getattr(arguments, flag, False):
                setattr(arguments, flag, False)
                switch.session.request("precision", "dtype", flag[:4], source=f"TrainingArguments.{flag}")
                switch.changed(f"{flag} switched off", type(arguments).__name__)
        if getattr(arguments, "tf32", None):
            arguments.tf32 = None
            switch.changed("tf32 switched off", type(arguments).__name__)

    refuse = switch.guarded(refuse)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def __post_init__(self: Any, *args: Any, **kwargs: Any) -> Any:
            refuse(self)
            result = original(self, *args, **kwargs)
            if hasattr(self, "mixed_precision"):
                self.mixed_precision = "no"
            return result

        return __post_init__

    replace(kind, "__post_init__", make)


def _loading(switch: Switch, kind: Any) -> None:
    """Weights are loaded as float32 whatever the program or the checkpoint's configuration says."""

    def change(arguments: dict[str, Any]) -> None:
        import torch

        options = arguments["kwargs"]
        if options.get("quantization_config") is not None:
            switch.cannot("quantized weights stay as they are", arguments["cls"].__name__)
            return
        name = "torch_dtype" if "torch_dtype" in options or not _knows_dtype() else "dtype"
        asked = options.get(name)
        options[name] = torch.float32
        if asked != torch.float32:
            switch.changed(f"dtype {spoken(asked) or 'of the configuration'} replaced by float32", "from_pretrained")

    for method in ("from_pretrained", "_from_config"):
        change_arguments(switch, kind, method, change)


def _knows_dtype() -> bool:
    """`dtype` came with transformers 4.56; until then it was `torch_dtype`."""
    import transformers

    major, minor = transformers.__version__.split(".")[:2]
    return (int(major), int(minor)) >= (4, 56)
