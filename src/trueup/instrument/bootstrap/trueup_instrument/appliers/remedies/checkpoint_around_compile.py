"""The checkpoint is outside of what is compiled: a graph break within splits the block, and no more."""

from __future__ import annotations

import sys

from trueup_instrument.appliers.compiling import compile_in_place, compile_modules, repeated_blocks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

WRAPPER = "torch.distributed.algorithms._checkpoint.checkpoint_wrapper"


def attach(switch: Switch) -> None:
    def compile(module: Any, options: dict[str, Any]) -> Any:
        options = {**options, "fullgraph": False}
        wrapper = getattr(sys.modules.get(WRAPPER), "CheckpointWrapper", ())
        inner = [each._checkpoint_wrapped_module for each in module.modules() if isinstance(each, wrapper)]
        blocks = inner or repeated_blocks(module)
        for block in blocks:
            compile_in_place(block, options)
        if blocks:
            switch.changed(f"{len(blocks)} blocks compiled within their checkpoints", type(blocks[0]).__name__)
        return module if blocks else None

    compile_modules(switch, compile, in_place=True)
