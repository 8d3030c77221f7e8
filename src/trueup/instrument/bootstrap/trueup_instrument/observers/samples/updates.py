"""What an optimizer step changed: a few elements of each parameter, before and after."""

from __future__ import annotations

import sys

from trueup_instrument.adapter_names import is_adapter
from trueup_instrument.observers.samples import parameters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trueup_instrument.sampling import Sample

NAME = "updates"

PROBED = 32
"""Elements looked at per parameter."""
MOST = 600
"""Parameters looked at."""
SHOWN = 40


class Window:
    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.before: dict[int, tuple[Any, Any, Any]] = {}
        """id(parameter) → (parameter, its probed elements, the gradient's)."""

    def gradients_ready(self, optimizer: Any) -> None:
        with parameters.no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if len(self.before) >= MOST or id(parameter) in self.before:
                        continue
                    if parameter.grad is None or parameter.grad.is_sparse or not group.get("lr", 1.0):
                        continue
                    held, gradient = probe(parameter), probe(parameter.grad)
                    if held is not None and gradient is not None and held.shape == gradient.shape:
                        self.before[id(parameter)] = (parameter, held, gradient)

    def fields(self) -> dict[str, Any]:
        torch = sys.modules["torch"]
        names = parameters.names_of(self.sample.roots)
        unchanged, changed, adapters_changed = [], 0, 0
        elements = still = 0
        with torch.no_grad():
            for key, (parameter, held, gradient) in self.before.items():
                now = probe(parameter)
                if now is None or now.shape != held.shape or not held.numel():
                    continue
                moved = now != held
                pushed = gradient != 0
                name = names.get(key, "")  # an optimizer may hold a tensor that is no part of the model
                elements += int(pushed.sum())
                still += int((pushed & ~moved).sum())
                if bool(moved.any()):
                    changed += 1
                    adapters_changed += is_adapter(name)
                elif name and bool(pushed.any()):
                    unchanged.append(name)
        self.before = {}
        return {
            "updates": {
                "unchanged": sorted(unchanged)[:SHOWN],
                "unchanged_count": len(unchanged),
                "changed_count": changed,
                "adapter_changed": adapters_changed,
                "elements_probed": elements,
                "elements_unchanged": still,
            }
        }


def probe(tensor: Any) -> Any:
    """Up to PROBED elements, evenly spread, of what this rank holds of a tensor, copied; None for a scattered one."""
    held = parameters.local(tensor).detach()
    if not held.is_contiguous():
        return None
    flat = held.view(-1)
    stride = max(1, flat.numel() // PROBED)
    return flat[::stride][:PROBED].clone()
