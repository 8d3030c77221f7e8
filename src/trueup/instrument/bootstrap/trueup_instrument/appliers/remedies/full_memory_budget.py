"""The partitioner of compiled graphs recomputes only what costs nothing: the budget of activation memory is whole."""

from __future__ import annotations

from trueup_instrument.appliers.settings import hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    hold(switch, "activation_memory_budget", 1.0, module="torch._functorch.config")
