"""accelerate's regional compilation compiles the repeated blocks themselves, and no copy of the model."""

from __future__ import annotations

from trueup_instrument.appliers.compiling import compile_in_place, repeated_blocks
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("accelerate.utils.other", lambda module: _regions(switch, module))


def _regions(switch: Switch, module: Any) -> None:
    def compile(model: Any, options: dict[str, Any]) -> Any:
        blocks = repeated_blocks(model)
        if not blocks:
            return None
        for block in blocks:
            compile_in_place(block, options)
        switch.changed(f"{len(blocks)} blocks compiled in place", type(blocks[0]).__name__)
        return model

    compile = switch.guarded(compile)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def compile_regions(module: Any, **options: Any) -> Any:
            done = compile(module, options)
            return original(module, **options) if done is None else done

        return compile_regions

    if not replace(module, "compile_regions", make):
        switch.cannot("this accelerate has no regional compilation")
