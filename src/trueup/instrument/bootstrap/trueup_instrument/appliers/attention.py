"""`attention=...`: which kernels scaled_dot_product_attention may take, and what Hugging Face models call.

`eager` is hand-written attention where a model has it, and the math kernel elsewhere. `math`, `flash`, `mem_efficient`
and `cudnn` leave the operator that one kernel: where the kernel cannot run torch raises, rather than take another.
`sdpa` leaves it them all. Models that have a choice use `eager` for the first and `sdpa` for the others.
"""

from __future__ import annotations

from trueup_instrument.appliers.replacing import change_arguments, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

KERNELS = ("flash", "mem_efficient", "math", "cudnn", "overrideable")
ALLOWED = {"eager": ("math",), "sdpa": KERNELS}
"""Value → kernels it leaves to torch; each other value is the name of the one it leaves."""


def attach(switch: Switch) -> None:
    switch.after("torch", lambda torch: _kernels(switch, torch))
    switch.after("transformers.modeling_utils", lambda module: models(switch, module.PreTrainedModel, switch.value))


def _kernels(switch: Switch, torch: ModuleType) -> None:
    """Set torch's toggles and keep them: every way to change them ends in these functions."""
    allowed = ALLOWED.get(switch.value, (switch.value,))
    for kernel in KERNELS:
        ask, name = getattr(torch._C, f"_get_{kernel}_sdp_enabled", None), f"_set_sdp_use_{kernel}"
        if ask is None or not hasattr(torch._C, name):
            continue
        if ask() != (kernel in allowed):
            getattr(torch._C, name)(kernel in allowed)
            switch.changed(f"{kernel} kernel {'enabled' if kernel in allowed else 'disabled'}", "torch.backends.cuda")
        # mypy infers no type of a lambda with a default
        replace(torch._C, name, lambda original, kernel=kernel: _kept(switch, kernel, kernel in allowed))  # type: ignore[misc]


def _kept(switch: Switch, kernel: str, allowed: bool) -> Callable[[Any], None]:
    tell = switch.guarded(lambda: switch.changed(f"{kernel} kernel kept {'enabled' if allowed else 'disabled'}"))

    def toggle(enabled: Any) -> None:
        if bool(enabled) != allowed:
            tell()

    return toggle


def models(switch: Switch, kind: Any, value: Any) -> None:
    """Have models take what `value` says: these methods make every choice of a model's attention, also afterwards."""

    def choose(arguments: dict[str, Any]) -> None:
        model, name = arguments["self"], list(arguments)[1]
        arguments[name] = chosen(switch, model, arguments[name], value)

    methods = ("_check_and_adjust_attn_implementation", "get_correct_attn_implementation")
    found = [change_arguments(switch, kind, method, choose) for method in methods]
    if not any(found):
        switch.cannot("this transformers chooses attention by other means", "PreTrainedModel")


def chosen(switch: Switch, model: Any, asked: Any, value: Any) -> Any:
    """The implementation that a model gets in place of the one `asked` for."""
    wanted = "eager" if value == "eager" else "sdpa"
    name = type(model).__name__
    if value == "flash" and asked is not None and "flash" in asked:
        wanted = asked
    if wanted == "sdpa" and not getattr(model, "_supports_sdpa", True):
        switch.cannot("the model has no attention through scaled_dot_product_attention", name)
        return asked
    if wanted != asked:
        switch.changed(f"attention {asked or 'of its own choice'} replaced by {wanted}", name)
    return wanted
