"""Floating-point operations of the step's matrix multiplications, by the dtype of their inputs."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trueup_instrument.sampling import Sample

NAME = "matmuls"

DTYPES = {
    "float": "float32",
    "double": "float64",
    "c10::Half": "float16",
    "c10::complex<c10::Half>": "complex32",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
    "c10::BFloat16": "bfloat16",
    "c10::Float8_e4m3fn": "float8_e4m3fn",
    "c10::Float8_e5m2": "float8_e5m2",
    "signed char": "int8",
}
"""C++ names that the profiler gives → torch's names."""


class Window:
    def __init__(self, sample: Sample) -> None:
        self.sample = sample

    def fields(self) -> dict[str, Any]:
        flops: dict[str, int] = {}
        for name, shapes, dtypes in self.sample.operators.matmuls:
            first = 1 if name in ("aten::addmm", "aten::baddbmm") else 0
            if len(shapes) < first + 2 or len(shapes[first]) < 2 or len(shapes[first + 1]) < 2:
                continue
            dtype = DTYPES.get(dtypes[first], dtypes[first])
            flops[dtype] = flops.get(dtype, 0) + count(shapes[first], shapes[first + 1])
        return {"matmul": flops}


def count(left: list[int], right: list[int]) -> int:
    """FLOPs of [..., m, k] @ [..., k, n]: two for each multiply-add."""
    batch = 1
    for size in left[:-2]:
        batch *= size
    return 2 * batch * left[-2] * left[-1] * right[-1]
