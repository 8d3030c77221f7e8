"""What the preparation for k-bit training casts to float32 of the 16-bit parameters keeps its dtype."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


PREPARE = "prepare_model_for_kbit_training"


def attach(switch: Switch) -> None:
    switch.after("peft.utils.other", lambda module: _preparing(switch, module))


def _preparing(switch: Switch, module: Any) -> None:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def prepare_model_for_kbit_training(model: Any, *args: Any, **kwargs: Any) -> Any:
            low = [(name, each.dtype) for name, each in model.named_parameters() if each.dtype.itemsize == 2]
            result = original(model, *args, **kwargs)
            back(result, low)
            return result

        return prepare_model_for_kbit_training

    def cast(model: Any, low: list[tuple[str, Any]]) -> None:
        """Matrices only: norms are few, and better in float32."""
        present = dict(model.named_parameters())
        cast = [(present[name], dtype) for name, dtype in low if name in present and present[name].dim() > 1]
        for parameter, dtype in cast:
            parameter.data = parameter.data.to(dtype)
        if cast:
            switch.changed(f"{len(cast)} matrices keep their 16 bits", type(model).__name__)

    back = switch.guarded(cast)
    if not replace(module, PREPARE, make):
        switch.cannot("this peft prepares by other means")
