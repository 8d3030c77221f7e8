"""Graphs with sizes that vary run without CUDA graphs, of which each size would record its own."""

from __future__ import annotations

from trueup_instrument.appliers.settings import hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    hold(switch, "triton.cudagraph_skip_dynamic_graphs", True, module="torch._inductor.config")
