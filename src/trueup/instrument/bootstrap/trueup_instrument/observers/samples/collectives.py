"""Calls of collectives in the sampled step, by kind, whichever backend and wrapper made them."""

from __future__ import annotations

import sys

from trueup_instrument.frames import innermost_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any

    from trueup_instrument.frames import Listener
    from trueup_instrument.sampling import Sample

NAME = "collectives"

KINDS = {
    "all_reduce": ("c10d::allreduce", "_c10d_functional::all_reduce"),
    "all_gather": ("c10d::allgather", "c10d::_allgather_base", "_c10d_functional::all_gather"),
    "reduce_scatter": ("c10d::reduce_scatter", "c10d::_reduce_scatter_base", "_c10d_functional::reduce_scatter"),
    "broadcast": ("c10d::broadcast", "_c10d_functional::broadcast"),
    "all_to_all": ("c10d::alltoall", "_c10d_functional::all_to_all"),
    "barrier": ("c10d::barrier",),
    "send": ("c10d::send",),
    "recv": ("c10d::recv",),
    "scatter": ("c10d::scatter",),
    "gather": ("c10d::gather",),
    "reduce": ("c10d::reduce_",),
}
"""Kind → beginnings of the dispatcher's operator names."""


class Window:
    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.without_sync = 0
        self.wrapper_forwards = 0

    def listeners(self) -> dict[CodeType, Listener]:
        found: dict[CodeType, Listener] = {}
        for name, owner in (
            ("torch.nn.parallel.distributed", "DistributedDataParallel"),
            ("torch.distributed.fsdp", "FullyShardedDataParallel"),
        ):
            code = innermost_code(getattr(getattr(sys.modules.get(name), owner, None), "no_sync", None))
            if code is not None:
                found[code] = self._no_sync
        ddp = getattr(sys.modules.get("torch.nn.parallel.distributed"), "DistributedDataParallel", None)
        code = innermost_code(getattr(ddp, "forward", None))
        if code is not None:
            found[code] = self._wrapper_forward
        fsdp2 = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", None)
        code = innermost_code(getattr(fsdp2, "set_requires_gradient_sync", None))
        if code is not None:
            found[code] = self._no_sync
        return found

    def _no_sync(self, frame: FrameType) -> None:
        self.without_sync += 1

    def _wrapper_forward(self, frame: FrameType) -> None:
        self.wrapper_forwards += 1

    def fields(self) -> dict[str, Any]:
        counts: dict[str, int] = {}
        for name, calls in self.sample.operators.counts.items():
            for kind, beginnings in KINDS.items():
                if name.startswith(beginnings):
                    counts[kind] = counts.get(kind, 0) + calls
                    break
        return {
            "collectives": counts,
            "exchanged_elements": self.sample.operators.exchanged,
            "wrapper_forwards": self.wrapper_forwards,
            "no_sync": self.without_sync,
            "backwards": len(self.sample.backwards),
            "reducing_backwards": self._reducing(),
            "gathers_in_backward": self._gathers(),
            "random_ops": self.sample.operators.random(),
            "random_in_backward": self.sample.operators.random(self.sample.backwards),
        }

    def _gathers(self) -> int:
        """All-gathers that began within a backward pass."""
        starts = self.sample.operators.gathers
        return sum(any(begin <= start <= end for begin, end in self.sample.backwards) for start in starts)

    def _reducing(self) -> int:
        """Backward passes in which a reduction over ranks began; the profiler's clock is the system's."""
        starts = self.sample.operators.reductions
        return sum(any(begin <= start <= end for start in starts) for begin, end in self.sample.backwards)
