"""torch.compile of a module compiles that module itself: one object, whose names get no prefix."""

from __future__ import annotations

from trueup_instrument.appliers.compiling import compile_in_place, compile_modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    def compile(module: Any, options: dict[str, Any]) -> Any:
        compile_in_place(module, options)
        switch.changed("compiled in place", type(module).__name__)
        return module

    compile_modules(switch, compile)
