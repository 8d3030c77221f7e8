"""One model for all ranks: each part of a parameter is taken from the rank that would hold it, were it sharded.

Sharded, each rank keeps its own part of the parameters that it made, whatever the others made: the model is put
together of parts of all. Whole, the ranks must agree.
"""

from __future__ import annotations

import sys
import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

ALIGNED = 16
"""Bytes; where a flat parameter keeps its originals, each begins at a multiple of these."""


class Agreement:
    """Units whose parameters the ranks have to agree on, once they are made: before the first forward pass."""

    def __init__(self) -> None:
        self._waiting: list[tuple[weakref.ref[Any], dict[str, int], list[int], Any]] = []

    def later(self, module: Any, axes: dict[str, int], sources: list[int], group: Any) -> None:
        """`axes`: name → axis over which it would be split; a parameter that is not among them came afterwards."""
        self._waiting.append((weakref.ref(module), axes, sources, group))

    def settle(self) -> bool:
        """Agree on all that is made by now. False while something is still to be made."""
        left = []
        for waiting in self._waiting:
            reference, axes, sources, group = waiting
            module = reference()
            if module is None:
                continue
            named = [(name, each) for name, each in module.named_parameters() if not hasattr(each, "_local_tensor")]
            if any(each.is_meta for _, each in named):
                left.append(waiting)
                continue
            for name, each in named:
                agree(each.detach(), axes.get(name, 0), sources if name in axes else sources[:1], group)
        self._waiting = left
        return not left


def agree(tensor: Any, axis: int, sources: Sequence[int], group: Any) -> None:
    """Take each part of `tensor`, split along `axis`, from its source, a global rank."""
    torch: Any = sys.modules["torch"]
    if len(sources) > 1 and not tensor.ndim:
        sources = sources[:1]
    with torch.no_grad():
        for source, part in zip(sources, tensor.chunk(len(sources), axis) if tensor.ndim else [tensor], strict=False):
            sent = part.contiguous()
            torch.distributed.broadcast(sent, source, group)
            part.copy_(sent)


def agree_on_flat(parameters: list[Any], sources: Sequence[int], group: Any, is_aligned: bool) -> None:
    """The same for parameters that FSDP1 would have in one flat parameter, in their order."""
    torch: Any = sys.modules["torch"]
    if len({(each.dtype, each.device) for each in parameters}) > 1:  # these it could not
        for each in parameters:
            agree(each.detach(), 0, sources[:1], group)
        return
    if not parameters:
        return
    step = ALIGNED // parameters[0].element_size() if is_aligned else 1
    places, end = [], 0
    for each in parameters:
        end += -end % step
        places.append(end)
        end += each.numel()
    with torch.no_grad():
        flat = parameters[0].new_zeros(end + -end % len(sources))
        for each, begin in zip(parameters, places, strict=True):
            flat[begin : begin + each.numel()] = each.reshape(-1)
        agree(flat, 0, sources, group)
        for each, begin in zip(parameters, places, strict=True):
            each.copy_(flat[begin : begin + each.numel()].view(each.shape))
