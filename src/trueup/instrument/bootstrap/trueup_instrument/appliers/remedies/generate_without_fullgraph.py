"""`generate()` compiles with fullgraph=False: a graph break then splits the graph and ends nothing."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("transformers.modeling_utils", lambda module: _models(switch, module))


def _models(switch: Switch, module: ModuleType) -> None:
    """The one place where a model's decoding is compiled; the configuration is the caller's, so that it is put back."""
    told = switch.guarded(lambda model: switch.changed("CompileConfig.fullgraph = False", type(model).__name__))

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def get_compiled_call(self: Any, compile_config: Any) -> Any:
            if not getattr(compile_config, "fullgraph", False):
                return original(self, compile_config)
            told(self)
            compile_config.fullgraph = False
            try:
                return original(self, compile_config)
            finally:
                compile_config.fullgraph = True

        return get_compiled_call

    if not replace(module.PreTrainedModel, "get_compiled_call", make):
        switch.cannot("this transformers compiles generation by other means", "PreTrainedModel")
