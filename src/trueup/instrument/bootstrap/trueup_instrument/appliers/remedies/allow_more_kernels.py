"""`sdpa_kernel` leaves torch the memory-efficient and the math kernel, too, behind those that it is given."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("torch.nn.attention", lambda module: _contexts(switch, module))


def _contexts(switch: Switch, module: Any) -> None:
    """The function in which each way to enter and to leave the context ends, also that of graphs."""
    backend = module.SDPBackend
    others = [backend.EFFICIENT_ATTENTION, backend.MATH]
    tell = switch.guarded(lambda names: switch.changed(f"kernels allowed beside {names}", "torch.nn.attention"))

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def _sdpa_kernel(backends: Any, *args: Any, **options: Any) -> Any:
            asked = list(backends)
            more = [each for each in others if each not in asked]
            if more and asked:
                tell(", ".join(each.name for each in asked))
            return original([*asked, *more] if asked else asked, *args, **options)

        return _sdpa_kernel

    if not replace(module, "_sdpa_kernel", make):
        switch.cannot("this torch restricts its kernels by other means")
