"""Which document each token of a packed batch belongs to, by what the model itself was given.

Documents are numbered from 0 in each row; padding, and a document of a single token, is -1.
"""

from __future__ import annotations

import sys

from trueup_instrument.probes.calls import is_floating, is_tensor, is_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


class Documents:
    """Where the documents of a batch are."""

    def __init__(self, numbers: Any, seen_in: str) -> None:
        self.numbers = numbers
        """Tensor (rows, positions)."""
        self.seen_in = seen_in
        """The argument that parts them, or `eos token`, `bos token`."""


BOUNDARIES = ("cu_seq_lens_q", "cu_seqlens", "cu_seqlens_q", "cu_seq_lens")
NUMBERED = ("seq_idx", "document_ids", "doc_ids", "document_id", "segment_ids", "sequence_ids", "sequence_id")
SHORTEST = 2
"""Tokens of a document that counts: padding often has position 0 each."""


def documents_of(
    named: Mapping[str, Any], tokens: Any, *, eos: int | None = None, bos: int | None = None
) -> Documents | None:
    """The documents of the rows of `tokens`, (rows, positions) or embedded; None where no row holds two of them."""
    shape = tuple(tokens.shape[:2]) if tokens.dim() > 1 else (1, tokens.shape[0])
    if shape[1] < 2 * SHORTEST:
        return None
    whole = is_whole(tokens)
    ways: list[tuple[str, Callable[[], Any]]] = []
    told: list[tuple[int, str, Callable[[], Any]]] = []
    if eos is not None and whole:
        ways.append(("eos token", lambda: _running(_after(tokens.view(shape) == eos))))
    if bos is not None and whole:
        ways.append(("bos token", lambda: _running(tokens.view(shape) == bos)))
    for name, value in named.items():
        found = _way(name, value, shape)
        if found is not None:
            told.append((found[0], name, found[1]))
    ways += [(name, way) for _, name, way in sorted(told, key=lambda each: each[0])]
    for seen_in, way in ways:
        numbers = way()
        if numbers is None or tuple(numbers.shape) != shape:
            continue
        numbers = _counted(numbers, _hidden(named.get("attention_mask"), shape))
        if bool((numbers.max(1).values > 0).any()):
            return Documents(numbers, seen_in)
    return None


def _way(name: str, value: Any, shape: tuple[int, int]) -> tuple[int, Callable[[], Any]] | None:
    """How this argument tells documents, and its rank: a mask or boundaries may be what is wrong, not positions."""
    if "pos" in name and is_whole(value):
        return 0, lambda: _from_positions(value, shape)
    if name in NUMBERED and is_whole(value):
        return 1, lambda: _running(_changes(value.view(-1, value.shape[-1]).expand(shape)))
    if name == "attention_mask" and is_whole(value) and tuple(value.shape) == shape and bool((value > 1).any()):
        return 1, lambda: _running(_changes(value))
    if name in BOUNDARIES and is_whole(value) and value.dim() == 1:
        return 2, lambda: _from_boundaries(value, shape)
    if "mask" in name and is_tensor(value) and value.dim() >= 3 and tuple(value.shape[-2:]) == (shape[1],) * 2:
        return 3, lambda: _from_mask(value, shape)
    if callable(getattr(value, "mask_mod", None)):
        return 3, lambda: _from_mask_function(value.mask_mod, shape)
    return None


def _from_boundaries(boundaries: Any, shape: tuple[int, int]) -> Any:
    """Of cumulated lengths over all rows, one after the other; tokens beyond the last one are padding."""
    torch = sys.modules["torch"]
    places = torch.arange(shape[0] * shape[1], device=boundaries.device)
    numbers = torch.searchsorted(boundaries[1:].contiguous().to(places.dtype), places, right=True)
    numbers[places >= boundaries[-1]] = -1
    return numbers.view(shape)


def _from_positions(positions: Any, shape: tuple[int, int]) -> Any:
    """A document begins where positions fall back to the lowest of the row; equal ones throughout are padding."""
    if positions.dim() == 3:  # one axis each for time, height and width
        positions = positions[0]
    if positions.shape[-1] != shape[1]:
        return None
    positions = positions.reshape(-1, shape[1])
    if positions.shape[0] not in (1, shape[0]):
        return None
    positions = positions.expand(shape)
    begins = positions.new_zeros(shape).bool()
    begins[:, 1:] = (positions[:, 1:] < positions[:, :-1]) & (positions[:, 1:] == positions.min(1).values[:, None])
    numbers = _running(begins)
    for number in range(int(numbers.max()) + 1):
        chosen = numbers == number
        for row in chosen.any(1).nonzero().flatten().tolist():
            inside = positions[row][chosen[row]]
            if inside.numel() > 1 and bool((inside == inside[0]).all()):
                numbers[row][chosen[row]] = -1
    return numbers


def _from_mask(mask: Any, shape: tuple[int, int]) -> Any:
    """A document begins at a token that may not look at the one before it."""
    torch = sys.modules["torch"]
    mask = mask.reshape(-1, *mask.shape[-2:])
    mask = mask[:1] if mask.shape[0] % shape[0] else mask[:: mask.shape[0] // shape[0]]
    allowed = (
        mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2 if is_floating(mask) else None
    )
    if allowed is None:
        return None
    return _running(_first_and(~allowed.diagonal(-1, -2, -1)).expand(shape))


def _from_mask_function(mask_mod: Callable[..., Any], shape: tuple[int, int]) -> Any:
    """As `_from_mask`, of the function that a BlockMask was made from."""
    torch = sys.modules["torch"]
    holder = next((cell.cell_contents for cell in getattr(mask_mod, "__closure__", None) or () if _holds(cell)), None)
    device = holder.device if holder is not None else None
    later = torch.arange(1, shape[1], device=device)
    zero = torch.zeros((), dtype=torch.long, device=device)
    rows = [
        torch.as_tensor(mask_mod(zero + row, zero, later, later - 1)).expand(shape[1] - 1) for row in range(shape[0])
    ]
    return _running(_first_and(~torch.stack(rows)))


def _holds(cell: Any) -> bool:
    try:
        return is_tensor(cell.cell_contents)
    except ValueError:  # an empty cell
        return False


def _changes(values: Any) -> Any:
    return _first_and(values[:, 1:] != values[:, :-1])


def _first_and(begins: Any) -> Any:
    """Of positions 1 to n: with position 0, which begins nothing that was not begun."""
    return sys.modules["torch"].nn.functional.pad(begins, (1, 0), value=False)


def _after(ends: Any) -> Any:
    return _first_and(ends[:, :-1])


def _running(begins: Any) -> Any:
    return begins.long().cumsum(1)


def _hidden(mask: Any, shape: tuple[int, int]) -> Any:
    """Where a mask of tokens says that there is none."""
    if not is_tensor(mask) or tuple(mask.shape) != shape:
        return None
    return mask == 0


def _counted(numbers: Any, hidden: Any) -> Any:
    """Numbers without gaps from 0 on in each row, -1 for what is hidden or too short."""
    torch = sys.modules["torch"]
    numbers = numbers.clone() if hidden is None else numbers.masked_fill(hidden.to(numbers.device), -1)
    counted = torch.full_like(numbers, -1)
    for row in range(numbers.shape[0]):
        found, tokens = numbers[row].unique(return_counts=True)
        kept = [number for number, count in zip(found.tolist(), tokens.tolist(), strict=True) if count >= SHORTEST]
        for place, number in enumerate(number for number in kept if number >= 0):
            counted[row][numbers[row] == number] = place
    return counted
