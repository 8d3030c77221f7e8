"""Apply layers to a model in the order in which they compose: `trueup.compose(model, plan)`.

Importing this package imports no torch; composing does. `trueup.compose` is this package and, called, its function.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from trueup.compose.errors import ComposeError, NotAsPlanned, RecompilesBeyondLimit, RecompileWarning
from trueup.compose.plan import Checkpointing, CompilePolicy, Plan

if TYPE_CHECKING:
    from trueup.compose.composed import Composed

__all__ = [
    "Checkpointing",
    "CompilePolicy",
    "ComposeError",
    "NotAsPlanned",
    "Plan",
    "RecompileWarning",
    "RecompilesBeyondLimit",
]


class _Package(ModuleType):
    def __call__(self, model: Any, plan: Plan) -> Composed:
        from trueup.compose.composing import compose

        return compose(model, plan)


sys.modules[__name__].__class__ = _Package
