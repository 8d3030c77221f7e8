"""The loss of each step: the sum over the step's backward passes of their roots, read without making a device wait."""

from __future__ import annotations

import sys
import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SIDE_STREAMS: dict[Any, Any] = {}
"""Device → the stream on which losses are copied to the host."""


class Losses:
    def __init__(self) -> None:
        self._parts: list[Pending] = []
        self._unscaled: tuple[weakref.ref[Any], Any] | None = None

    def scaled(self, result: Any, source: Any) -> None:
        """`result` is `source` times a GradScaler's scale; a backward pass from it counts as one from `source`."""
        if hasattr(source, "detach"):
            self._unscaled = (weakref.ref(result), source.detach())

    def add(self, roots: Any) -> None:
        """A backward pass begins at `roots`."""
        for root in roots if isinstance(roots, (tuple, list)) else (roots,):
            if self._unscaled is not None and self._unscaled[0]() is root:
                root = self._unscaled[1]
            if (
                hasattr(root, "numel")
                and root.numel() == 1
                and not root.is_complex()
                and not hasattr(root, "_local_tensor")
            ):
                self._parts.append(Pending(root))

    def of_step(self) -> list[Pending]:
        """The parts of the step that ends now, to be asked for their value later."""
        parts, self._parts, self._unscaled = self._parts, [], None
        return parts

    def discard(self) -> None:
        """What came since the last step belongs to none."""
        self.of_step()


class Pending:
    """A value, read at once from a CPU. From a CUDA device it is copied when asked, behind an event, on a side stream.

    The program may change the tensor in place after the backward pass, so that a copy is kept.
    Unverified on a GPU: written from torch.cuda's documentation of events and streams.
    """

    def __init__(self, tensor: Any) -> None:
        self.event: Any = None
        self.kept: Any
        if tensor.is_cuda:
            cuda = sys.modules["torch"].cuda
            self.kept = tensor.detach().clone()
            self.event = cuda.Event()
            self.event.record()
        else:
            self.kept = float(tensor.item())

    def ready(self) -> bool:
        return self.event is None or self.event.query()

    def value(self) -> float:
        if self.event is None:
            return self.kept  # type: ignore[no-any-return]  # a float where there is no event
        cuda = sys.modules["torch"].cuda
        device = self.kept.device
        stream = SIDE_STREAMS.get(device)
        if stream is None:
            stream = SIDE_STREAMS[device] = cuda.Stream(device=device)
        stream.wait_event(self.event)
        with cuda.stream(stream):
            return float(self.kept.item())
