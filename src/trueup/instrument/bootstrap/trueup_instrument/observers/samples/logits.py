"""Scores over a vocabulary that the step held as whole tensors: how many positions at once, and in which copies.

Three results of that size live at the start of a backward pass: what the head computed, its log-softmax (the loss keeps
it), and the gradient. Each is the largest of its kind in the step: a loss in chunks shows the size of a chunk.
"""

from __future__ import annotations

import sys
from math import prod
from typing import NamedTuple

from trueup_instrument import modules, places
from trueup_instrument.attributes import plain_attribute
from trueup_instrument.frames import innermost_code
from trueup_instrument.observers.samples.matmuls import DTYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any

    from trueup_instrument.frames import Listener
    from trueup_instrument.sampling import Sample

NAME = "logits"
SMALLEST = 4096
"""Classes from which scores are called those of a vocabulary."""
BYTES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2}


class _Scores(NamedTuple):
    positions: int
    vocabulary: int
    dtype: str
    bytes: int


class Window:
    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.at: str | None = None

    def listeners(self) -> dict[CodeType, Listener]:
        functional = sys.modules.get("torch.nn.functional")
        codes = [innermost_code(getattr(functional, name, None)) for name in ("cross_entropy", "log_softmax")]
        return {code: self._called for code in codes if code is not None}

    def _called(self, frame: FrameType) -> None:
        if self.at is None and not self.sample.evaluations.going_on:
            self.at = places.user_line(frame)

    def fields(self) -> dict[str, Any]:
        operators = self.sample.operators
        vocabularies = {shape[-1] for _, shape, _ in operators.log_softmaxes if len(shape) >= 2}
        vocabularies |= {size for root in self.sample.roots if (size := vocabulary_of(root)) is not None}
        vocabularies = {size for size in vocabularies if size >= SMALLEST}
        found: dict[str, _Scores] = {}
        for name, shapes, dtypes in operators.matmuls:
            first = 1 if name in ("aten::addmm", "aten::baddbmm") else 0
            if len(shapes) >= first + 2 and len(shapes[first]) >= 2 and len(shapes[first + 1]) >= 2:
                shape = [*shapes[first][:-1], shapes[first + 1][-1]]
                _remember(found, "head", shape, dtypes[first], vocabularies)
        for what, shape, dtype in operators.log_softmaxes:
            _remember(found, what, shape, dtype, vocabularies)
        if "head" not in found:  # scores of something else, or of a head that was not seen
            return {}
        return {
            "logits": {"at": self.at, **{what: scores._asdict() for what, scores in found.items()}},
        }


def vocabulary_of(root: Any) -> int | None:
    """`vocab_size` of a model's configuration."""
    config = plain_attribute(modules.beneath_adapters(modules.bare(root)), "config")
    size = plain_attribute(config, "vocab_size") if config is not None else None
    return size if isinstance(size, int) and not isinstance(size, bool) else None


def _remember(found: dict[str, _Scores], what: str, shape: list[int], dtype: str, vocabularies: set[int]) -> None:
    if shape[-1] not in vocabularies:
        return
    name = DTYPES.get(dtype, dtype)
    size = prod(shape) * BYTES.get(name, 0)
    if size > (found[what].bytes if what in found else 0):
        found[what] = _Scores(prod(shape[:-1]), shape[-1], name, size)
