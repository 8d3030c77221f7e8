"""What the appliers do around each call of a module that torch.compile has compiled."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

    Arguments = tuple[tuple[Any, ...], dict[str, Any]]
    Around = Callable[[Any, Arguments], tuple[Arguments, Callable[[], None] | None]]
    """(module, arguments) → (arguments in their place, what to do after the call)."""


def around_compiled_calls(switch: Switch, around: Around) -> None:
    """Have `around` see the calls of modules compiled by torch.compile or in place, from outside of their graphs."""
    switch.after(
        "torch", lambda torch: replace(torch, "compile", lambda original: _made(switch, torch, original, around))
    )


def _made(switch: Switch, torch: Any, original: Callable[..., Any], around: Around) -> Callable[..., Any]:
    guarded = switch.guarded(around)

    def torch_compile(model: Any = None, *args: Any, **options: Any) -> Any:
        result = original(model, *args, **options)
        if options.get("disable") or result is model:
            return result
        if isinstance(model, torch.nn.Module):
            result.forward = _called(torch, model, result.forward, guarded)
            return result
        owner = getattr(model, "__self__", None)  # Module.compile compiles the module's `_call_impl`
        return _called(torch, owner, result, guarded) if isinstance(owner, torch.nn.Module) else result

    return torch_compile


def _called(torch: Any, module: Any, call: Callable[..., Any], around: Callable[..., Any]) -> Callable[..., Any]:
    def compiled(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return call(*args, **kwargs)
        (args, kwargs), after = around(module, (args, kwargs)) or ((args, kwargs), None)
        try:
            return call(*args, **kwargs)
        finally:
            if after is not None:
                after()

    compiled.get_compiler_config = getattr(call, "get_compiler_config", None)  # type: ignore[attr-defined]
    return compiled
