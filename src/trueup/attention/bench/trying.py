"""One trial of each way: does it serve the call, how exactly, with how much memory, and can it take a turn at all?"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from trueup.attention.bench import memory
from trueup.attention.bench.accuracy import Reference
from trueup.attention.bench.case import Case, density
from trueup.attention.bench.roofline import Peaks, forward_flops
from trueup.attention.bench.statistics import timing
from trueup.attention.bench.time_limit import OutOfTime, time_limit
from trueup.attention.bench.ways import CannotCall, Way
from trueup.attention.call import BYTES, Place
from trueup.attention.knowledge import KERNELS
from trueup.schema.attention_bench import Row

COMPILES_UNTIL = 0.5
"""Share of the time after which nothing more is compiled; what is left is for turns."""
COMPILES_END = 0.75
"""Share of it at which a compilation that still goes on is given up."""
SLOWEST = 0.1
"""Share of the time that one call may take."""
SLOWER_THAN_PEAK = 20
"""How much more slowly than a large matrix product an unfused kernel may run before it is not even tried."""
COPIES_OF_SCORES = 5
"""Of kernels that write them out, with the backward pass."""


class Tried:
    """A way that served the call once."""

    def __init__(self, way: Way, run: Runner, row: Row) -> None:
        self.way = way
        self.run = run
        self.row = row
        self.forward: list[float] = []
        self.backward: list[float] = []

    @property
    def sums(self) -> list[float]:
        """Seconds of both passes, round by round."""
        return [sum(pair) for pair in zip(self.forward, self.backward, strict=True)]


class Runner:
    """Calls one way on the inputs, and tells the seconds of its forward and its backward pass."""

    def __init__(
        self, attention: Callable[[Any, Any, Any], Any], given: tuple[Any, ...], torch: Any, device: str
    ) -> None:
        self._attention = attention
        self._given = given
        self._torch = torch
        self._device = device
        self._detached = tuple(each.detach() for each in given[:3])
        self.backward = False

    def once(self) -> tuple[float, float]:
        torch = self._torch
        with torch.enable_grad() if self.backward else torch.no_grad():
            if self._device == "cuda":
                return self._on_gpu()
            began = time.perf_counter()
            out = self._attention(*self._inputs())
            middle = time.perf_counter()
            if not self.backward:
                return middle - began, 0.0
            torch.autograd.grad(out, self._inputs(), self._given[3])
            return middle - began, time.perf_counter() - middle

    def _on_gpu(self) -> tuple[float, float]:
        torch = self._torch
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
        torch.cuda.synchronize()
        marks[0].record()
        out = self._attention(*self._inputs())
        marks[1].record()
        if self.backward:
            torch.autograd.grad(out, self._inputs(), self._given[3])
        marks[2].record()
        torch.cuda.synchronize()
        return marks[0].elapsed_time(marks[1]) / 1e3, marks[1].elapsed_time(marks[2]) / 1e3

    def results(self) -> tuple[Any, tuple[Any, ...]]:
        """The output and, with backward, the gradients of queries, keys and values."""
        torch = self._torch
        with torch.enable_grad() if self.backward else torch.no_grad():
            out = self._attention(*self._inputs())
            return out, torch.autograd.grad(out, self._inputs(), self._given[3]) if self.backward else ()

    def _inputs(self) -> tuple[Any, ...]:
        return self._given[:3] if self.backward else self._detached


class Trials:
    """Tries ways of one case on one device."""

    def __init__(
        self, case: Case, torch: Any, device: str, given: tuple[Any, ...], peaks: Peaks, place: Place, budget: float
    ) -> None:
        self._case = case
        self._torch = torch
        self._device = device
        self._given = given
        self._peaks = peaks
        self._place = place
        self._budget = budget
        detached = tuple(each.detach() for each in given)
        self._reference = Reference(case, torch, device, detached, case.backward)
        self._forward_only: dict[Callable[..., Any], str] = {}
        """Functions that have no backward pass here, and why: asked while it compiles, Dynamo would leave them out."""

    def of(self, way: Way, used: float) -> Tried | str:
        """The way with its accuracy and memory, or why it does not serve the call; `used` seconds have passed."""
        reason = _without_trying(way, self._case, self._peaks, self._budget, used)
        if reason:
            return reason
        try:
            run = self._runner(way)
        except CannotCall as error:
            return str(error)
        except Exception as error:
            return self._reason(error, way, self._case.backward)
        left = COMPILES_END * self._budget - used if way.mode else math.inf
        try:
            with time_limit(left):
                first = self._first(way, run)
        except OutOfTime:
            return f"compiling it took more than the {left:.0f} s that were left for it (--budget)"
        except Exception as error:
            return self._reason(error, way, run.backward)
        return self._looked_at(way, run, first)

    def _runner(self, way: Way) -> Runner:
        attention = way.make(self._case, self._torch, self._device)
        if way.mode:
            mode = None if way.mode == "default" else way.mode
            attention = self._torch.compile(attention, mode=mode, dynamic=False, fullgraph=True)
        run = Runner(attention, self._given, self._torch, self._device)
        run.backward = self._case.backward and way.make not in self._forward_only
        return run

    def _first(self, way: Way, run: Runner) -> float:
        """Seconds of the first call; of the forward pass alone where there is no backward pass."""
        began = time.perf_counter()
        try:
            run.once()
        except Exception as error:
            if not run.backward:
                raise
            reason = self._reason(error, way, True)
            run.backward = False
            began = time.perf_counter()
            run.once()
            self._forward_only[way.make] = reason
        return time.perf_counter() - began

    def _looked_at(self, way: Way, run: Runner, first: float) -> Tried | str:
        taken = sum(run.once())
        if taken > SLOWEST * self._budget:
            return f"one call takes {taken:.3g} s of {self._budget:g} s (--budget)"
        out, gradients = run.results()
        row = Row(
            kernel=way.kernel,
            mode=way.mode,
            forward=timing([taken]),
            peak_bytes=memory.peak_of(run.results, self._torch, self._device),
            error=self._reference.error(out),
            gradient_error=self._reference.gradient_error(gradients) if gradients else None,
            compile_seconds=first if way.mode else None,
            without_backward=self._forward_only.get(way.make, "") if self._case.backward else "",
        )
        return Tried(way, run, row)

    def _reason(self, error: Exception, way: Way, backward: bool) -> str:
        """The knowledge's words where it has some, else those of the error."""
        kernel = KERNELS.get(way.kernel)
        call = self._case.call(self._place, backward=backward, compiled=bool(way.mode))
        found = kernel.obstacles(call) if kernel else ()
        if found:
            return f"needs {found[0].constraint.about}: {found[0].constraint.needs}; given {found[0].given}"
        text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


def _without_trying(way: Way, case: Case, peaks: Peaks, budget: float, used: float) -> str:
    """Why it is not even tried; empty when it is."""
    import psutil

    if way.mode and used > COMPILES_UNTIL * budget:
        return f"not compiled: half of the {budget:g} s was used up (--budget)"
    if way.fused:
        return ""
    scores = case.query[0] * case.query[1] * case.query[2] * case.key[2]
    needed = scores * BYTES[case.dtype] * COPIES_OF_SCORES  # type: ignore[index]  # one of its keys
    free = psutil.virtual_memory().available
    if needed > free / 2 and not way.mode:
        return f"its scores would take {needed / 1e9:.3g} GB, {free / 1e9:.3g} GB are free"
    seconds = forward_flops(case) / density(case) * (3.5 if case.backward else 1) / peaks.flops_per_second
    if seconds * SLOWER_THAN_PEAK > budget:
        return f"one call might take {seconds * SLOWER_THAN_PEAK:.0f} s of {budget:g} s (--budget)"
    return ""
