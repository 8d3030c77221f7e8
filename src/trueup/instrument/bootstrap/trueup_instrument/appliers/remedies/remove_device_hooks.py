"""accelerate's hooks that move tensors are taken off a model that is compiled, where all of it is on one device."""

from __future__ import annotations

from trueup_instrument.appliers.compiling import compile_modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    def without_hooks(model: Any, options: dict[str, Any]) -> None:
        """Always None: what compiles the model goes on, and finds it without the hooks."""
        held = [(module, module._hf_hook) for module in model.modules() if hasattr(module, "_hf_hook")]
        if not held:
            return
        from accelerate.hooks import remove_hook_from_module

        devices = {str(each.device) for each in (*model.parameters(), *model.buffers())}
        if not all(_only_aligns(hook) for _, hook in held) or len(devices) != 1 or "meta" in devices:
            switch.cannot("the model is spread over devices, or its hooks do more than to move tensors")
            return
        for module, _ in held:
            remove_hook_from_module(module)
        switch.changed(f"hooks of {len(held)} modules removed", type(model).__name__)

    compile_modules(switch, without_hooks, in_place=True)


def _only_aligns(hook: Any) -> bool:
    """Hooks that offload bring weights in and out, and others may do anything."""
    members = getattr(hook, "hooks", (hook,))
    return all(type(each).__name__ == "AlignDevicesHook" and not each.offload for each in members)
