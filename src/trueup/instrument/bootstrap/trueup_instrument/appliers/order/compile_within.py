"""`compile before ...`: what the other layer wraps is compiled, and not what is around it.

Where the other layer is not there yet, it is compiled when the model is first called. torch.compile(module) gives the
module itself, as `module.compile()` does.
"""

from __future__ import annotations

from trueup_instrument import modules
from trueup_instrument.appliers.compiling import compile_in_place, compile_modules
from trueup_instrument.appliers.order.parts import WITHIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    within = Within(switch, switch.name.rpartition(" ")[2])
    compile_modules(switch, within.compile, in_place=True)


class Within:
    """Compiles the parts that `other` wraps."""

    def __init__(self, switch: Switch, other: str) -> None:
        self._switch = switch
        self._other = other
        self._busy = False
        self._later = switch.guarded(self._resolve)

    def compile(self, module: Any, options: dict[str, Any]) -> Any:
        if self._busy:  # a part of what was asked for
            return None
        if self._parts(module):
            self._resolve(module, options)
        else:
            self._postpone(module, options)
        return module

    def _postpone(self, module: Any, options: dict[str, Any]) -> None:
        later = self._later

        def first_call(called: Any, args: Any) -> None:
            called._forward_pre_hooks.pop(handle.id, None)
            later(called, options)

        handle = module.register_forward_pre_hook(first_call)

    def _resolve(self, module: Any, options: dict[str, Any]) -> None:
        self._busy = True
        try:
            parts = self._parts(module)
            for part in parts or [module]:
                compile_in_place(part, options)
        finally:
            self._busy = False
        if parts:
            kinds = ", ".join(dict.fromkeys(modules.class_name(part) for part in parts))
            self._switch.changed(
                f"{len(parts)} parts compiled within {self._other}: {kinds}", modules.class_name(module)
            )

    def _parts(self, module: Any) -> list[Any]:
        found = {id(part): part for part in WITHIN[self._other](module) if part is not module}
        inner = {id(each) for part in found.values() for each in part.modules() if each is not part}
        return [part for key, part in found.items() if key not in inner]
