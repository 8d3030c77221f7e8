"""What `trueup attention bench` measured. Times are seconds of one call, sizes bytes, rates per second."""

from __future__ import annotations

import msgspec

SCHEMA_VERSION = 1


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Of one call, over rounds in which all kernels took turns."""

    median: float
    low: float
    """The median lies between `low` and `high` with a confidence of 95 %."""
    high: float
    samples: int


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel in one compile mode."""

    kernel: str
    """As in `trueup attention explain` and in reports of runs."""
    mode: str = ""
    """Mode of torch.compile; empty for a call that is not compiled."""
    forward: Timing
    backward: Timing | None = None
    both: Timing | None = None
    """Forward and backward of the same call."""
    relative: Timing | None = None
    """Times as long as the first row, round by round; None where the first row did not do the same."""
    peak_bytes: int | None = None
    """Most that was allocated at once during the call, beyond its inputs."""
    error: float | None = None
    """Largest difference of the output from fp64, as a share of the largest output."""
    gradient_error: float | None = None
    """The same of the gradients of queries, keys and values; the worst of them."""
    roofline: float | None = None
    """The least time that the device needs for this work, over the time measured."""
    compile_seconds: float | None = None
    """Of the first call."""
    without_backward: str = ""
    """Why the backward pass was not measured."""

    @property
    def name(self) -> str:
        return f"{self.kernel}, {in_words(self.mode)}" if self.mode else self.kernel

    @property
    def whole(self) -> Timing:
        """What the table is sorted by."""
        return self.both or self.forward


def in_words(mode: str) -> str:
    """A mode of torch.compile: `compiled` is its default."""
    return "compiled" if mode == "default" else mode


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel that was not measured, and why."""

    kernel: str
    mode: str = ""
    reason: str


class Roofline(msgspec.Struct, frozen=True, kw_only=True):
    """Work of the call by its shapes, and what this device does at most, measured."""

    flops: float
    """Of the two matrix products of the forward pass, hidden scores left out; with backward 3.5 times as many."""
    bytes: float
    """Inputs and outputs, each once."""
    flops_per_second: float
    """Of a large matrix product in this dtype."""
    bytes_per_second: float
    """Read and written by a copy of a large tensor."""
    seconds: float
    """The larger of the two times that follow."""


class Bench(msgspec.Struct, frozen=True, kw_only=True):
    """The measurement of all kernels for one call."""

    schema_version: int = SCHEMA_VERSION
    trueup_version: str = ""
    device: str
    """Name of the GPU, or of the CPU."""
    device_type: str
    threads: int
    torch: str
    query: tuple[int, int, int, int]
    """(batch, heads, length, head size)"""
    key: tuple[int, int, int, int]
    dtype: str
    mask: str
    """Kind, with its number: `causal`, `window=256`."""
    density: float
    """Share of the scores that are not hidden."""
    backward: bool
    rows: tuple[Row, ...]
    """The fastest first; those without a backward pass, where it was asked for, last."""
    left_out: tuple[LeftOut, ...] = ()
    roofline: Roofline | None = None
    memory_by: str = ""
    """How memory was measured."""
    rounds: int = 0
    seconds: float = 0.0
    saved_as: str = ""
    """Key under which the order was saved."""

    @property
    def order(self) -> tuple[str, ...]:
        """Kernels that did all that was asked for, the fastest first, each once."""
        full = [row.kernel for row in self.rows if row.both is not None or not self.backward]
        return tuple(dict.fromkeys(full))

    @property
    def equals(self) -> tuple[Row, ...]:
        """The first row, and those whose time cannot be told from its."""
        alike = (row for row in self.rows[1:] if row.relative is not None and row.relative.low <= 1)
        return (*self.rows[:1], *alike)
