"""Sizes of what a compiled module is given are dynamic from the first call on, but for the last of floating tensors."""

from __future__ import annotations

from trueup_instrument.appliers.compiled_calls import around_compiled_calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("torch", lambda torch: _calls(switch, torch))


def _calls(switch: Switch, torch: Any) -> None:
    def mark(tensor: Any) -> Any:
        """A size of one, or one that code relies on, is compiled as it is: the mark asks and does not demand."""
        if type(tensor) is torch.Tensor and tensor.dim() > 0:
            floating = tensor.is_floating_point()
            for dimension in range(tensor.dim() - 1 if floating else tensor.dim()):
                torch._dynamo.maybe_mark_dynamic(tensor, dimension)
        return tensor

    def around(module: Any, arguments: Any) -> Any:
        from torch.utils._pytree import tree_map

        tree_map(mark, arguments)
        switch.changed("sizes of inputs marked", type(module).__name__)
        return arguments, None

    around_compiled_calls(switch, around)
