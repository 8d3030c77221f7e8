"""What is measured: the shapes, the dtype and the mask, from the words of the command line."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Any

from trueup.attention.call import Call, Mask, MaskKind, Place

Shape = tuple[int, int, int, int]

NAMES = {"fp64": "float64", "fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
"""Dtype → its name in torch."""
MASKS: dict[str, tuple[MaskKind, int]] = {
    "none": ("none", 0),
    "causal": ("causal", 0),
    "all-ones": ("all-ones", 0),
    "causal-tensor": ("causal-tensor", 0),
    "padding": ("padding", 0),
    "float": ("float", 0),
    "window": ("window", 256),
    "document": ("document", 4),
}
"""Word of the command line → kind, and the number that goes with it: tokens of a window, documents of a row."""


class CaseError(ValueError):
    """A shape or mask that cannot be measured; the message says what is wrong with it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One call of attention."""

    query: Shape
    """(batch, heads, length, head size)"""
    key: Shape
    """Of keys and values."""
    dtype: str = "bf16"
    mask: MaskKind = "none"
    number: int = 0
    backward: bool = True

    @property
    def groups(self) -> int:
        """Heads of queries for each head of keys."""
        return self.query[1] // self.key[1]

    @property
    def mask_in_words(self) -> str:
        return f"{self.mask}={self.number}" if self.number else self.mask

    def call(self, place: Place, *, backward: bool | None = None, compiled: bool = False) -> Call:
        """As the knowledge of kernels takes it."""
        return Call(
            query=self.query,
            key=self.key,
            value=self.key,
            dtype=self.dtype,  # type: ignore[arg-type]  # one of NAMES
            mask=Mask(kind=self.mask, window=self.number if self.mask == "window" else None),
            enable_gqa=self.groups > 1,
            requires_grad=self.backward if backward is None else backward,
            compiled=compiled,
            place=place,
        )


def case_of(
    shape: str,
    *,
    dtype: str = "bf16",
    mask: str = "causal",
    kv_heads: int | None = None,
    kv_length: int | None = None,
    backward: bool = True,
) -> Case:
    """Raises CaseError."""
    parts = [part.strip() for part in re.split(r"[x×,]", shape.lower())]
    if len(parts) != 4 or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise CaseError(
            f"{shape!r} is no shape: give batch, heads, length and head size, four whole numbers above 0, as "
            "4,32,2048,128"
        )
    batch, heads, length, size = map(int, parts)
    key_heads, key_length = kv_heads or heads, kv_length or length
    if heads % key_heads:
        raise CaseError(f"{heads} heads cannot share {key_heads} heads of keys and values: no whole number for each")
    word, sign, text = mask.partition("=")
    if word not in MASKS:
        raise CaseError(f"{mask!r} is no mask; choose from {', '.join(MASKS)}")
    kind, number = MASKS[word]
    if sign and not (number and text.isdecimal() and int(text) > 0):
        raise CaseError(f"{mask!r}: only window=TOKENS and document=NUMBER take a number, above 0")
    number = int(text) if sign else number
    if kind != "none" and kind != "all-ones" and kind != "float" and kind != "padding" and key_length != length:
        raise CaseError(f"a mask of kind {word} needs as many keys as queries, not {key_length} for {length}")
    if kind == "document" and number > length:
        raise CaseError(f"a row of {length} tokens does not hold {number} documents")
    return Case(
        query=(batch, heads, length, size),
        key=(batch, key_heads, key_length, size),
        dtype=dtype,
        mask=kind,
        number=number,
        backward=backward,
    )


def inputs(case: Case, torch: Any, device: str, seed: int = 0) -> tuple[Any, Any, Any, Any]:
    """Queries, keys, values, and the gradient of the output; the same numbers on every device."""
    generator = torch.Generator().manual_seed(seed)
    dtype = getattr(torch, NAMES[case.dtype])
    made = [torch.randn(shape, generator=generator) for shape in (case.query, case.key, case.key, case.query)]
    q, k, v, gradient = (each.to(device=device, dtype=dtype) for each in made)
    return q, k, v, gradient


def rule(case: Case, torch: Any, device: str) -> Any:
    """`allowed(batch, head, query, key)` over index tensors, as FlexAttention's mask functions; None for no mask."""
    if case.mask in ("none", "float"):
        return None
    if case.mask == "all-ones":
        return lambda b, h, i, j: (i >= 0) & (j >= 0)
    if case.mask in ("causal", "causal-tensor"):
        return lambda b, h, i, j: i >= j
    if case.mask == "window":
        width = case.number
        return lambda b, h, i, j: (i >= j) & (i - j < width)
    if case.mask == "document":
        places = torch.arange(case.query[2], device=device)
        documents = places * case.number // case.query[2]
        return lambda b, h, i, j: (i >= j) & (documents[i] == documents[j])
    kept = torch.full((case.query[0],), case.key[2], device=device)
    kept[::2] = max(1, case.key[2] * 3 // 4)  # every other row is padded by a quarter
    return lambda b, h, i, j: (j < kept[b]) & (i >= 0)


def bias(case: Case, torch: Any, device: str) -> Any:
    """The float mask: a distance penalty, (1, 1, length, length of keys)."""
    i = torch.arange(case.query[2], device=device)[:, None]
    j = torch.arange(case.key[2], device=device)[None, :]
    return (-0.01 * (i - j).abs()).to(getattr(torch, NAMES[case.dtype]))[None, None]


def allowed(case: Case, torch: Any, device: str) -> Any:
    """The mask as a tensor of truth values, (batch or 1, 1, length, length of keys); None for no mask."""
    may = rule(case, torch, device)
    if may is None:
        return None
    rows = case.query[0] if case.mask == "padding" else 1
    b = torch.arange(rows, device=device)[:, None, None, None]
    i = torch.arange(case.query[2], device=device)[:, None]
    j = torch.arange(case.key[2], device=device)[None, :]
    return torch.broadcast_to(may(b, 0, i, j), (rows, 1, case.query[2], case.key[2]))


def density(case: Case) -> float:
    """Share of the scores that are not hidden."""
    length, keys = case.query[2], case.key[2]
    if case.mask in ("causal", "causal-tensor"):
        return (length + 1) / (2 * length)
    if case.mask == "window":
        width = min(case.number, length)
        return (width * (width + 1) / 2 + (length - width) * width) / (length * length)
    if case.mask == "document":
        starts = [-(-number * length // case.number) for number in range(case.number + 1)]
        sizes = [end - start for start, end in itertools.pairwise(starts)]
        return sum(size * (size + 1) / 2 for size in sizes) / (length * length)
    if case.mask == "padding":
        short = max(1, keys * 3 // 4)
        batch = case.query[0]
        padded = -(-batch // 2)
        return (padded * short + (batch - padded) * keys) / (batch * keys)
    return 1.0
