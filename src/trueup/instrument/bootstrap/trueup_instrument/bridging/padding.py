"""Rows with padding as documents one behind the other, without a shape that depends on data.

Real tokens come first, in their order, padding last. The boundaries are those that transformers makes of the mask
(`_get_unpad_data`), and end before the padding: the kernel computes nothing for it. It takes any mask, padded on either
side or with holes.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class SortedTokens:
    """The tokens of a batch of rows, sorted."""

    def __init__(self, torch: Any, permute: Any, mask: Any) -> None:
        """`mask`: (rows, length), true or 1 where a token is real. `permute`: of `permuted`."""
        self._torch, self._permute, self.shape = torch, permute, mask.shape
        self._real = mask.reshape(-1) != 0
        count = self._real.cumsum(0)
        padding = (~self._real).cumsum(0)
        self._place = torch.where(self._real, count - 1, count[-1] + padding - 1)
        """Where a token goes."""
        tokens = torch.arange(self._place.shape[0], device=mask.device)
        self._order = torch.empty_like(self._place).scatter_(0, self._place, tokens)
        """The token that goes to a place."""
        self._kept = tokens < count[-1]
        lengths = (mask != 0).sum(-1, dtype=torch.int32)
        self.starts = torch.nn.functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))
        """(rows + 1,) int32: where each row begins among the real tokens, and where the last ends."""

    def sorted(self, states: Any) -> Any:
        """(rows, length, heads, size) → (1, tokens, heads, size). Padding has no value and no gradient."""
        moved = self._permute.apply(states.flatten(0, 1), self._order, self._place)
        return self._torch.where(self._kept[:, None, None], moved, 0).unsqueeze(0)

    def restored(self, states: Any) -> Any:
        """The inverse of `sorted`: zeros at padding, as transformers pads."""
        kept = self._torch.where(self._kept[:, None, None], states[0], 0)
        return self._permute.apply(kept, self._place, self._order).unflatten(0, self.shape)


def permuted(torch: Any) -> Any:
    """An autograd.Function: rows of `states` in another order. Its gradient is the inverse order, not a sum of rows."""

    class Permuted(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, states: Any, order: Any, place: Any) -> Any:
            ctx.save_for_backward(place)
            return states[order]

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> tuple[Any, None, None]:
            (place,) = ctx.saved_tensors
            return gradient[place], None, None

    return Permuted


def over_padding(
    torch: Any,
    permute: Any,
    attention: Callable[..., Any],
    states: tuple[Any, Any, Any],
    mask: Any,
    **options: Any,
) -> Any:
    """Attention of transformers over rows with padding: query, key and value are (rows, length, heads, size)."""
    rows = SortedTokens(torch, permute, mask)
    length = mask.shape[1]
    window = options.get("sliding_window")
    if window is not None and length <= window:
        options["sliding_window"] = None
    q, k, v = (rows.sorted(each) for each in states)
    options.update(
        cu_seq_lens_q=rows.starts, cu_seq_lens_k=rows.starts.view(-1), max_length_q=length, max_length_k=length
    )
    return rows.restored(attention(q, k, v, None, **options))
