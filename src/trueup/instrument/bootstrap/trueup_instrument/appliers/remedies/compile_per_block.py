"""torch.compile of a model compiles its repeated blocks in place: one graph serves all, and hooks stay outside."""

from __future__ import annotations

from trueup_instrument.appliers.compiling import compile_in_place, compile_modules, repeated_blocks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    def compile(module: Any, options: dict[str, Any]) -> Any:
        blocks = repeated_blocks(module)
        if not blocks:
            return None
        for block in blocks:
            compile_in_place(block, options)
        switch.changed(f"{len(blocks)} blocks compiled in place", type(blocks[0]).__name__)
        return module

    compile_modules(switch, compile, in_place=True)
