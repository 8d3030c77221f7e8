"""A forward outside of autocast, of a model that holds float32 and a half type, runs under the autocast of training."""

from __future__ import annotations

import sys

from trueup_instrument.appliers.forwards import around_forwards

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    trained: list[Any] = []
    """The dtype of the autocast that the last training forward ran under."""

    def before(model: Any) -> Callable[[], object] | None:
        torch = sys.modules["torch"]
        parameters = [each for each in model.parameters() if each.is_floating_point()]
        device = parameters[0].device.type if parameters else "cpu"
        if torch.is_autocast_enabled(device):
            if torch.is_grad_enabled():
                trained[:] = [torch.get_autocast_dtype(device)]
            return None
        halves = {each.dtype for each in parameters} & {torch.bfloat16, torch.float16}
        if not halves or torch.float32 not in {each.dtype for each in parameters} or not _is_free(torch):
            return None
        dtype = trained[0] if trained else sorted(halves, key=str)[0]
        context = torch.autocast(device, dtype=dtype)
        context.__enter__()
        switch.changed(f"autocast to {dtype}", type(model).__name__)
        return lambda: context.__exit__(None, None, None)

    around_forwards(switch, before)


def _is_free(torch: Any) -> bool:
    """False within `autocast(enabled=False)`, which the program meant. Asking is entering a context and leaving it."""
    depth: int = torch.autocast_increment_nesting()
    torch.autocast_decrement_nesting()
    return depth == 1
