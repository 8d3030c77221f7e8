"""Keep a setting of torch._dynamo or torch._inductor, also where the program sets it before it compiles."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def hold(switch: Switch, name: str, value: Any, module: str = "torch._dynamo.config", at_least: bool = False) -> None:
    """Set `name` of `module` to `value`, or with `at_least` raise it to that, now and when something is compiled."""

    def apply(config: Any) -> None:
        if not hasattr(config, name):
            switch.cannot(f"this torch has no setting {module}.{name}")
            return
        asked = getattr(config, name)
        if asked != value and not (at_least and asked is not None and asked >= value):
            setattr(config, name, value)
            switch.changed(f"{name} = {value}, was {asked}", module)

    def compiles(config: Any, frames: Any) -> None:
        again = switch.guarded(lambda: apply(config))

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def optimize(*args: Any, **kwargs: Any) -> Any:
                again()
                return original(*args, **kwargs)

            return optimize

        replace(frames, "optimize", make)

    def configured(config: Any) -> None:
        apply(config)
        switch.after("torch._dynamo.eval_frame", lambda frames: compiles(config, frames))

    switch.after(module, configured)
