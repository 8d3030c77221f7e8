"""Which compiled variants each block has run, told by the compiled code itself as it runs.

Blocks of one class share what Dynamo compiled of their code, so the code's own cache says nothing of one block. The
backend given to torch.compile puts a mark into each variant; the mark says which block's call it runs in.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

Variant = tuple[Any, Any]
"""(function, variant) of a compiled graph: the two numbers that Dynamo prints as `3/1`."""


class BlockRuns:
    """What one block ran."""

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.kind = kind
        """Name of its class."""
        self.calls = 0
        self.variants: set[Variant] = set()
        self.grown = False
        """The call that runs now has run a variant that is new to this block."""
        self.graphs = 0
        """Graphs that ran in the last call."""
        self.eager = False
        """The policy has it run as plain Python from now on."""
        self.breaks: Counter[str] = Counter()
        self.recompiles: Counter[str] = Counter()
        """Reasons of those that were compiled in a call of this block."""
        self.given_up: Counter[str] = Counter()
        """Limits of Dynamo's own that were reached, and failures to compile."""
        self.checkpoints = 0
        """Checkpoints captured as operators in graphs that were compiled in a call of this block."""

    @property
    def recompiled(self) -> int:
        """Variants beyond the first of the function with most of them."""
        functions = Counter(function for function, _ in self.variants)
        return max(functions.values(), default=1) - 1

    def ran(self, variant: Variant) -> None:
        self.graphs += 1
        if variant not in self.variants:
            self.variants.add(variant)
            self.grown = True


class _Running(threading.local):
    block: BlockRuns | None = None


running = _Running()
"""The block whose call this thread is in. Backward passes have threads of their own."""


def marked(compile: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A backend like `compile`, whose results tell the running block that they run."""
    serial = itertools.count()

    def backend(graph: Any, inputs: Any, **options: Any) -> Callable[..., Any]:
        compiled = compile(graph, inputs, **options)
        variant = _compile_id() or ("?", next(serial))

        def run(*args: Any) -> Any:
            block = running.block
            if block is not None:
                block.ran(variant)
            return compiled(*args)

        return run

    backend.__name__ = name
    return backend


def _compile_id() -> Variant | None:
    from torch._guards import CompileContext

    number = CompileContext.current_compile_id()
    return (number.frame_id, number.frame_compile_id) if number is not None else None
