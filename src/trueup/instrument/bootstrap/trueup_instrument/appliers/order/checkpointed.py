"""A forward that is checkpointed as a CheckpointWrapper would do it."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def checkpointed(wrapper: Any, forward: Callable[..., Any]) -> Callable[..., Any]:
    """`forward` with the checkpoint that `wrapper` has: its function, its options, the reentrant way or not."""
    nn = sys.modules["torch"].nn
    held = nn.Module()
    held.forward = forward
    kind: Any = type(wrapper)
    copy = kind.__new__(kind)
    nn.Module.__init__(copy)
    copy._checkpoint_wrapped_module = held
    copy.checkpoint_impl, copy.checkpoint_fn = wrapper.checkpoint_impl, wrapper.checkpoint_fn
    checkpointed: Callable[..., Any] = copy.forward
    return checkpointed
