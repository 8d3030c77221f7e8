"""How many tokens a batch has, and how long its sequences are, when that can be told from its shape alone."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAMES = ("input_ids", "tokens", "inputs", "ids", "decoder_input_ids", "x")


def batch_size_of(batch: Any) -> tuple[int, int] | None:
    """(tokens, sequence length) of a batch of integer ids, shape [batch, length] or [length]; None when it has none."""
    ids = _ids(batch)
    if ids is None:
        return None
    shape = ids.shape
    return int(ids.numel()), int(shape[-1])


def _ids(batch: Any) -> Any:
    if _is_ids(batch):
        return batch
    if hasattr(batch, "get") and hasattr(batch, "keys"):
        for name in NAMES:
            value = batch.get(name)
            if _is_ids(value):
                return value
        return None
    if isinstance(batch, (tuple, list)) and batch:
        return batch[0] if _is_ids(batch[0]) else None
    return None


def _is_ids(value: Any) -> bool:
    """A tensor of whole numbers with one or two dimensions."""
    shape = getattr(value, "shape", None)
    dtype = getattr(value, "dtype", None)
    if shape is None or dtype is None or not hasattr(value, "is_floating_point"):
        return False
    return 1 <= len(shape) <= 2 and not value.is_floating_point()
