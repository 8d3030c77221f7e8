"""Which operators and device kernels ran during one step, out of the profiler's events, without its tables."""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

MATMULS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::_scaled_mm", "aten::_int_mm")
GATHERS = ("c10d::allgather", "c10d::_allgather_base", "_c10d_functional::all_gather")
REDUCTIONS = ("c10d::allreduce", "c10d::reduce_scatter", "c10d::_reduce_scatter_base")
COLLECTIVES = ("c10d::", "_c10d_functional::")
WITHOUT_DATA = ("c10d::barrier", "c10d::monitored_barrier", "_c10d_functional::wait_tensor")
SDPA = "aten::scaled_dot_product_attention"
LOG_SOFTMAX = {"aten::_log_softmax": "log_softmax", "aten::_log_softmax_backward_data": "gradient"}
"""Operators of a cross entropy over classes → what their result is. They leave a tensor of the size of the logits."""
RANDOM = (
    "aten::native_dropout",
    "aten::bernoulli",
    "aten::bernoulli_",
    "aten::rand",
    "aten::rand_like",
    "aten::randn",
    "aten::randn_like",
    "aten::uniform_",
    "aten::normal_",
    "aten::exponential_",
    "aten::multinomial",
)
"""Operators that draw; not `aten::dropout`, which calls one of these only when there is something to drop."""
MASKING = (
    "aten::masked_fill",
    "aten::masked_fill_",
    "aten::where",
    "aten::add",
    "aten::add_",
    "aten::sub",
    "aten::mul",
)
"""Operators by which attention written by hand masks its scores."""
ATTENTION = ("scaled_dot_product", "flash", "fmha", "attention", "flex", "sdpa")
"""Parts of the names of attention's operators and device kernels."""
BACKWARD = ("backward", "bwd")


class Operators:
    """The events of one step, counted by name; shapes and dtypes are kept for the operators that need them.

    Attention is counted in the forward passes of training only: not where it began within `aside`, the (start, end) of
    evaluations and of backward passes, in which only the recomputation of a checkpoint runs it.
    """

    def __init__(self, events: Iterable[Any], aside: Sequence[tuple[int, int]] = ()) -> None:
        self.counts: dict[str, int] = {}
        self.attention: dict[str, int] = {}
        """Attention's operators and device kernels, forward → calls. A device's clock runs on its own: all of those."""
        self.matmuls: list[tuple[str, list[list[int]], list[str]]] = []
        """(name, shapes, dtypes) of each matrix multiplication."""
        self.log_softmaxes: list[tuple[str, list[int], str]] = []
        """(what it is, shape, dtype) of the results of each log-softmax and of its backward."""
        self.attention_calls: list[tuple[list[list[int]], list[str], list[Any]]] = []
        """(shapes, dtypes, concrete inputs) of each call of scaled_dot_product_attention."""
        self.softmaxes: list[tuple[int, int, list[int]]] = []
        """(start, end, shape) of each softmax over three dimensions or more, forward only."""
        self.gathers: list[int] = []
        """Start of each all-gather."""
        self.reductions: list[int] = []
        """Start of each gradient reduction over ranks."""
        self.exchanged: int | None = 0
        """Elements of the tensors given to collectives; None where the profiler does not tell the shapes of lists."""
        self.draws: list[tuple[int, int, str]] = []
        """(start, end, name) of each random operator and each attention with dropout, those within others as well."""
        self.math_spans: list[tuple[int, int]] = []
        """(start, end) of each math attention."""
        self.masked_scores: set[tuple[int, ...]] = set()
        """Shapes that look like scores (square) and were combined with another tensor."""
        for event in events:
            name = event.name()
            self.counts[name] = self.counts.get(name, 0) + 1
            counted = _is_attention(name) and not ("::" in name and _is_within(event.start_ns(), aside))
            if counted:
                self.attention[name] = self.attention.get(name, 0) + 1
            if name.startswith(COLLECTIVES) and not name.startswith(WITHOUT_DATA):
                elements = _elements(event)
                self.exchanged = None if self.exchanged is None or elements is None else self.exchanged + elements
            if name.startswith(REDUCTIONS):
                self.reductions.append(event.start_ns())
            elif name.startswith(GATHERS):
                self.gathers.append(event.start_ns())
            elif name in RANDOM:
                self.draws.append((*_span(event), name))
            elif name in MATMULS:
                self.matmuls.append((name, event.shapes(), event.dtypes()))
            elif name in LOG_SOFTMAX:
                shapes, dtypes = event.shapes(), event.dtypes()
                if shapes and shapes[0]:
                    self.log_softmaxes.append((LOG_SOFTMAX[name], shapes[0], dtypes[0]))
            elif name == SDPA:
                concrete = event.concrete_inputs() if hasattr(event, "concrete_inputs") else []
                if counted:
                    self.attention_calls.append((event.shapes(), event.dtypes(), concrete))
                if _drops(concrete):
                    self.draws.append((*_span(event), name))
            elif name == "aten::_softmax" or name == "aten::_safe_softmax":
                shapes = event.shapes()
                if shapes and len(shapes[0]) >= 3 and not _is_within(event.start_ns(), aside):
                    self.softmaxes.append((*_span(event), shapes[0]))
            elif name in MASKING:
                given = [shape for shape in event.shapes() if shape]
                self.masked_scores.update(tuple(shape) for shape in given if _is_square(shape) and len(given) > 1)
            elif name == "aten::_scaled_dot_product_attention_math":
                self.math_spans.append(_span(event))

    def random(self, within: Iterable[tuple[int, int]] | None = None) -> dict[str, int]:
        """Random operators → calls, those of other random operators left out; only those that began within the spans.

        Autograd draws nothing of its own: what is drawn within a backward pass is drawn again by a recomputation.
        """
        spans = None if within is None else list(within)
        found: dict[str, int] = {}
        last = -1
        for start, end, name in sorted(self.draws, key=lambda draw: (draw[0], -draw[1])):
            if end <= last:
                continue
            last = end
            if spans is None or _is_within(start, spans):
                found[name] = found.get(name, 0) + 1
        return found

    def own_softmaxes(self, dimensions: int = 4) -> list[list[int]]:
        """Shapes of softmaxes that are no part of SDPA's math path: attention written by hand."""
        spans = sorted(self.math_spans)
        return [
            shape
            for start, end, shape in self.softmaxes
            if len(shape) == dimensions and not any(begin <= start and end <= finish for begin, finish in spans)
        ]

    def unmasked_scores(self) -> list[list[int]]:
        """Shapes of the scores of attention written by hand that no other tensor was added to or put into."""
        own = [*self.own_softmaxes(3), *self.own_softmaxes(4)]
        return [shape for shape in own if _is_square(shape) and tuple(shape) not in self.masked_scores]

    def sequence_length(self) -> int | None:
        """Length of the queries of the first attention call, or None."""
        for shapes, _, _ in self.attention_calls:
            if shapes and len(shapes[0]) >= 3:
                return int(shapes[0][-2])
        return None


def _elements(event: Any) -> int | None:
    """Elements of the tensors that an operator was given, alone or in lists; None where no shape is told."""
    read = getattr(event, "structured_input_shapes", None)
    if read is None:
        return None
    given = [argument for argument in read() if argument]  # what is no tensor has an empty shape
    if not given:
        return None
    return sum(_size(argument) for argument in given)


def _size(shape: list[Any]) -> int:
    """Elements of a shape, or of all shapes in nested lists; within a list, an empty one is that of a number."""
    if not shape or isinstance(shape[0], int):
        return math.prod(shape)
    return sum(map(_size, shape))


def _is_square(shape: list[int]) -> bool:
    return len(shape) >= 3 and shape[-1] == shape[-2] > 1


def _drops(concrete: list[Any]) -> bool:
    """Whether a call of scaled_dot_product_attention was given a dropout probability above zero."""
    probability = concrete[4] if len(concrete) > 4 else None
    return isinstance(probability, (int, float)) and probability > 0


def _is_attention(name: str) -> bool:
    lower = name.lower()
    return any(mark in lower for mark in ATTENTION) and not any(mark in lower for mark in BACKWARD)


def _is_within(moment: int, spans: Iterable[tuple[int, int]]) -> bool:
    return any(begin <= moment <= end for begin, end in spans)


def _span(event: Any) -> tuple[int, int]:
    return event.start_ns(), event.start_ns() + event.duration_ns()
