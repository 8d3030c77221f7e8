"""Padding in the batch, and attention over the padded rows that was given no mask.

The mask is looked for where modules receive one, since each model calls it by another name and some never hand it to
their attention; without one, the token ids tell: what came with them and marks the same positions, under any name, is
their mask or their lengths. Attention without a mask counts when it covers the padded rows as they
are: rows that were cut to their length before have another size.
"""

from __future__ import annotations

import sys
from collections import UserDict
from math import prod

from trueup_instrument import modules
from trueup_instrument.frames import innermost_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType
    from typing import Any

    from trueup_instrument.frames import Listener
    from trueup_instrument.operators import Operators
    from trueup_instrument.sampling import Sample

NAME = "padding"

LOOKS = 6
LARGEST = 1 << 20
"""Elements of a mask or of a batch that is still looked at."""
NOT_PADDING = ("loss", "label", "prompt", "causal", "head", "span", "mlm", "target", "image", "window")
NO_TOKENS = ("mask", "label", "target")
UNMASKED_KERNELS = ("flash_attn_func", "flash_attention_func", "flash_attn_qkvpacked_func", "flash_attn_kvpacked_func")
"""Kernels that take no padding mask; their variants with `varlen` in the name are given the lengths."""
SHORTEST_RUN = 3
LARGEST_BATCH = 32
"""Entries of a dictionary that is still looked through as a batch."""
TAKES_ARGUMENTS, TAKES_KEYWORDS = 0x04, 0x08
"""Flags of code with *args and with **kwargs."""


class Window:
    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.found: tuple[str, str, int, int] | None = None
        """(side, where it was seen, rows, columns) of the first padded batch."""
        self.kernels: list[tuple[list[int], bool]] = []
        """(shape of the queries, causal) of kernels called by name."""
        self._looks = 0

    def listeners(self) -> dict[CodeType, Listener]:
        found: dict[CodeType, Listener] = {}
        for root in self.sample.roots:
            code = innermost_code(type(modules.bare(root)).forward)
            if code is not None:
                found[code] = self._batch_came
        for module in self.sample.live:
            code = innermost_code(type(module).forward)
            if code is not None and any("mask" in name for name in _arguments(code)):
                found.setdefault(code, self._called)
        for name, module in list(sys.modules.items()):
            if module is None or name.partition(".")[0] in ("torch", "transformers"):
                continue
            for kernel in UNMASKED_KERNELS:
                code = innermost_code(getattr(module, "__dict__", {}).get(kernel))
                if code is not None:
                    found[code] = self._kernel_called
        return found

    def _batch_came(self, frame: FrameType) -> None:
        self._called(frame)
        if self.sample.evaluations.going_on:
            return
        if self.found is not None or self._looks > LOOKS:
            return
        given = dict(_given(frame))
        ids = next((value for name, value in given.items() if _is_tokens(value) and not _names(name, NO_TOKENS)), None)
        if ids is None:
            return
        for name, value in given.items():
            side = padded_by(value, ids)
            if side is not None and not _names(name, NOT_PADDING):
                self.found = (side, name, *ids.shape)
                return
        side = padded_ids(ids)
        if side is not None:
            self.found = (side, "token ids", *ids.shape)

    def _called(self, frame: FrameType) -> None:
        if (self.found is not None and self.found[1] != "token ids") or self._looks > LOOKS:
            return
        if self.sample.evaluations.going_on:
            return
        self._looks += 1
        for name in _arguments(frame.f_code):
            if "mask" not in name or _names(name, NOT_PADDING):
                continue
            value: Any = frame.f_locals.get(name)
            if _is_small(value, 2):
                side = padded_mask(value, marks_padding="pad" in name)
                if side is not None:
                    self.found = (side, name, *value.shape)
                    return

    def _kernel_called(self, frame: FrameType) -> None:
        if self.sample.evaluations.going_on or self.sample.clock.in_backward:
            return
        given: list[Any] = [frame.f_locals.get(name) for name in _arguments(frame.f_code)]
        shape = next((list(value.shape) for value in given if hasattr(value, "shape")), None)
        if shape is not None and len(shape) == 4:
            self.kernels.append(([shape[0], shape[2], shape[1], shape[3]], bool(frame.f_locals.get("causal"))))

    def fields(self) -> dict[str, Any]:
        if self.found is None:
            return {}
        side, seen_in, rows, columns = self.found
        calls = unmasked(self.sample.operators, self.kernels, rows, columns)
        return {"padding": {"side": side, "seen_in": seen_in, **calls}}


def unmasked(operators: Operators, kernels: list[tuple[list[int], bool]], rows: int, columns: int) -> dict[str, int]:
    """Attention calls over all `rows` of `columns` positions that were given no mask: causal ones apart."""

    def covers(shape: list[int]) -> bool:
        return len(shape) >= 3 and shape[-2] == columns and prod(shape[:-2]) % rows == 0

    calls = [causal for shape, causal in kernels if covers(shape)]
    for shapes, _, concrete in operators.attention_calls:
        masked = len(shapes) > 3 and bool(shapes[3])
        if not masked and len(shapes) > 1 and covers(shapes[0]) and covers(shapes[1]):
            calls.append(len(concrete) > 5 and concrete[5] is True)
    calls += [False for shape in operators.unmasked_scores() if shape[-1] == columns and covers(shape)]
    return {"unmasked": calls.count(False), "unmasked_causal": calls.count(True)}


def padded_mask(mask: Any, marks_padding: bool) -> str | None:
    """`left`, `right` or `both` when each row of `mask` is one run of tokens and some are shorter; else None."""
    torch = sys.modules["torch"]
    with torch.no_grad():
        keep = mask != 0
        if mask.is_floating_point() and not bool(((mask == 0) | (mask == 1)).all()):
            return None
        keep = ~keep if marks_padding else keep
        if bool(keep.all()) or not bool(keep.any(1).all()):
            return None
        rows, columns = keep.shape
        if rows == columns and bool((keep == torch.ones_like(keep).tril()).all()):
            return None
        changes = (keep[:, 1:] != keep[:, :-1]).sum(1)
        left, right = ~keep[:, 0], ~keep[:, -1]
        if bool((changes > left.int() + right.int()).any()):
            return None
        return _side(bool(left.any()), bool(right.any()))


def padded_by(value: Any, ids: Any) -> str | None:
    """The side on which `value`, a mask of either sense or the lengths of the rows, says that `ids` are padded.

    Only what `ids` bear out counts: one id stands at all those positions, and nowhere else.
    """
    if value is ids or not (_is_small(value, 1) or _is_small(value, 2)) or value.is_floating_point():
        return None
    if value.device != ids.device:
        return None
    torch = sys.modules["torch"]
    with torch.no_grad():
        if value.shape == ids.shape and int(value.min()) >= 0 and int(value.max()) <= 1:
            keeps: tuple[Any, ...] = (value != 0, value == 0)
        elif value.shape == ids.shape[:1]:
            keeps = (torch.arange(ids.shape[1], device=ids.device) < value[:, None],)
        else:
            return None
        for keep in keeps:
            side = padded_mask(keep, marks_padding=False)
            pads = ids[~keep].unique() if side is not None else None
            if pads is not None and pads.numel() == 1 and not bool((ids[keep] == pads).any()):
                return side
    return None


def padded_ids(ids: Any) -> str | None:
    """The side on which rows of token ids end in runs of one id that stands nowhere else."""
    torch = sys.modules["torch"]
    with torch.no_grad():
        rows, columns = ids.shape
        if rows < 2 or columns <= SHORTEST_RUN:
            return None
        sides = {}
        for side, ends, inner in (("left", ids[:, :SHORTEST_RUN], 0), ("right", ids[:, -SHORTEST_RUN:], -1)):
            running = (ends == ends[:, :1]).all(1)
            candidates = ids[running, inner].unique()
            if candidates.numel() != 1 or bool(running.all()):
                continue
            is_pad = ids == candidates
            changes = (is_pad[:, 1:] != is_pad[:, :-1]).sum(1)
            at_end = is_pad[:, inner]
            sides[side] = not bool((changes > at_end.int()).any())
        return _side(sides.get("left", False), sides.get("right", False))


def _side(left: bool, right: bool) -> str | None:
    return "both" if left and right else "left" if left else "right" if right else None


def _arguments(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _given(frame: FrameType) -> Iterator[tuple[str, Any]]:
    """The arguments of a call by name; a batch handed over as a dictionary, or by keywords, as its items."""
    code = frame.f_code
    rest = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & TAKES_ARGUMENTS)
    keywords = code.co_varnames[rest : rest + 1] if code.co_flags & TAKES_KEYWORDS else ()
    for name in (*_arguments(code), *keywords):
        value: Any = frame.f_locals.get(name)
        if isinstance(value, (dict, UserDict)) and len(value) <= LARGEST_BATCH:
            yield from ((key, item) for key, item in value.items() if isinstance(key, str))
        else:
            yield name, value


def _is_tokens(value: Any) -> bool:
    """A tensor of whole numbers of shape (rows, positions)."""
    return _is_small(value, 2) and not value.is_floating_point() and "bool" not in str(value.dtype)


def _names(name: str, words: tuple[str, ...]) -> bool:
    return any(word in name for word in words)


def _is_small(value: Any, dimensions: int) -> bool:
    return (
        hasattr(value, "is_floating_point")
        and not hasattr(value, "_local_tensor")
        and value.dim() == dimensions
        and 0 < value.numel() <= LARGEST
    )
