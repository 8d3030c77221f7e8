"""What was done to a model, and a check of whether it also happened."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trueup.compose.plan import Plan
from trueup.compose.variants import BlockRuns
from trueup.schema.layer import Layer

if TYPE_CHECKING:
    from trueup.compose.coverage import Coverage


@dataclass(frozen=True, slots=True)
class Step:
    """One layer as it was applied."""

    layer: Layer
    what: str
    modules: int | None = None
    """To how many modules."""

    def __str__(self) -> str:
        return f"{self.layer}: {self.what}" + (f", {self.modules} modules" if self.modules is not None else "")


class Composed:
    """A model with the layers of a plan. Train `.model`; after the first steps ask `.check()`."""

    def __init__(self, model: Any, plan: Plan, blocks: dict[str, Any]) -> None:
        import torch

        self.model = model
        """The model to call. DDP and FSDP1 wrap the one that was given; FSDP2 changes it in place."""
        self.plan = plan
        self.blocks = blocks
        """Name → block, with the wrappers that belong into it."""
        self.applied: list[Step] = []
        """In the order in which it was done."""
        self.settings: dict[str, Any] = {}
        """Settings of torch._dynamo that were changed for the process → what they were."""
        self.runs: dict[str, BlockRuns] = {}
        """Name of a compiled block → what it ran."""
        self.forwards = 0
        """Calls of `.model`."""
        self.low_precision_forwards = 0
        """Those under autocast."""
        self.device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
        """Where it computes; a model on the meta device will be materialised on the accelerator, where there is one."""
        if self.device.type == "meta":
            self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def applied_layer(self, layer: Layer, what: str, modules: int | None = None) -> None:
        self.applied.append(Step(layer, what, modules))

    def set_dynamo(self, name: str, value: Any) -> None:
        """Change a setting of torch._dynamo for this process, and keep what it was."""
        from torch._dynamo import config

        self.settings[name] = getattr(config, name)
        setattr(config, name, value)

    def sealed(self) -> Composed:
        """All layers are applied: count the calls of what is to be trained."""

        def count(module: Any, args: Any) -> None:
            self.forwards += 1

        self.model.register_forward_pre_hook(count)
        of_models[self.model] = self
        return self

    def check(self) -> Coverage:
        """Compare the plan with what was observed so far; ask after a few steps. Changes nothing, waits for nobody."""
        from trueup.compose.coverage import coverage_of

        return coverage_of(self)

    def __str__(self) -> str:
        return "\n".join(map(str, self.applied)) or "nothing was asked for"


of_models: weakref.WeakKeyDictionary[Any, Composed] = weakref.WeakKeyDictionary()
"""Model → its composition."""
