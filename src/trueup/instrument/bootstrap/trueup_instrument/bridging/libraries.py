"""Libraries of attention kernels, by the module whose entry points are bridged."""

from __future__ import annotations

from trueup_instrument.bridging import flash_attention_2, flash_attention_3, flash_attention_4, xformers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Install = Callable[[Any, Any], tuple[list[str], str]]
    """(torch, module) → (entry points that were bridged, why others were not)."""

LIBRARIES: dict[str, Install] = {
    flash_attention_2.MODULE: flash_attention_2.install,
    flash_attention_3.MODULE: flash_attention_3.install,
    flash_attention_4.MODULE: flash_attention_4.install,
    xformers.MODULE: xformers.install,
}


def installed(torch: Any, modules: dict[str, Any]) -> dict[str, tuple[list[str], str]]:
    """Bridge the libraries that are imported: module → (what was bridged, why the rest was not)."""
    return {name: install(torch, modules[name]) for name, install in LIBRARIES.items() if name in modules}
