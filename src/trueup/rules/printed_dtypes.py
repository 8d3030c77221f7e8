"""Names of dtypes as C++, Python and old tensor types print them, brought to one spelling."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

HALVES = frozenset({"float16", "bfloat16"})
COMPUTE = HALVES | {"float32"}
"""Dtypes between which mixed precision moves; a mismatch with any other one is a fault of the data or of the code."""

PRINTED = r"(?:struct )?(?:c10::|torch\.)?(?:cuda\.)?[A-Za-z]\w*"
"""Expression for one dtype: `float`, `c10::BFloat16`, `torch.float32`, `torch.cuda.HalfTensor`."""

_NAMES = {"float": "float32", "half": "float16", "double": "float64", "long": "int64", "int": "int32", "char": "int8"}
_AROUND = re.compile(r"^(?:struct )?(?:c10::|torch\.)?(?:cuda\.)?(?:CPU|CUDA)?|(?:Tensor|Type)$")


def dtype(printed: str) -> str:
    """`bfloat16` of `c10::BFloat16`, `float32` of `Float` or `torch.cuda.FloatTensor`."""
    name = _AROUND.sub("", printed.strip()).lower()
    return _NAMES.get(name, name)


def mixed_precision(dtypes: Sequence[str]) -> bool:
    """True when float32 meets a half type and nothing else is there."""
    return set(dtypes) <= COMPUTE and "float32" in dtypes and bool(HALVES & set(dtypes))


def odd_one(names: Sequence[str], dtypes: Sequence[str]) -> str | None:
    """The name whose dtype no other has, where all others agree; None where no single one differs."""
    counted = Counter(dtypes)
    lonely = [name for name, each in zip(names, dtypes, strict=True) if counted[each] == 1]
    return lonely[0] if len(counted) == 2 and len(lonely) == 1 and len(names) > 2 else None
