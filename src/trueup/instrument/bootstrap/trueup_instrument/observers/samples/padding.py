"""Padding in the batch, and attention over the padded rows that was given no mask.

The mask is looked for where modules receive one, since each model calls it by another name and some never hand it to
their attention; without one, the token ids tell. Attention without a mask counts when it covers the padded rows as they
are: rows that were cut to their length before have another size.
"""

from __future__ import annotations

import sys
from math import prod

from trueup_instrument import modules
from trueup_instrument.frames import innermost_code

TYPE_CHECKING = False
if TYPE_CHECKING:
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
UNMASKED_KERNELS = ("flash_attn_func", "flash_attention_func", "flash_attn_qkvpacked_func", "flash_attn_kvpacked_func")
"""Kernels that take no padding mask; their variants with `varlen` in the name are given the lengths."""
SHORTEST_RUN = 3


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
        for name in _arguments(frame.f_code):
            value: Any = frame.f_locals.get(name)
            if _is_small(value, 2) and not value.is_floating_point() and "mask" not in name:
                side = padded_ids(value)
                if side is not None:
                    self.found = (side, "token ids", *value.shape)
                return

    def _called(self, frame: FrameType) -> None:
        if (self.found is not None and self.found[1] != "token ids") or self._looks > LOOKS:
            return
        if self.sample.evaluations.going_on:
            return
        self._looks += 1
        for name in _arguments(frame.f_code):
            if "mask" not in name or any(word in name for word in NOT_PADDING):
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


def _is_small(value: Any, dimensions: int) -> bool:
    return (
        hasattr(value, "is_floating_point")
        and not hasattr(value, "_local_tensor")
        and value.dim() == dimensions
        and 0 < value.numel() <= LARGEST
    )
