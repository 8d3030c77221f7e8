"""Weights that were one parameter are one again after materialisation or loading took them apart."""

from __future__ import annotations

from trueup_instrument import modules
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    def made(module: Any) -> None:
        replace(module.Module, "_apply", lambda original: _around(switch, original, loads=False))
        replace(module.Module, "load_state_dict", lambda original: _around(switch, original, loads=True))

    switch.after("torch.nn.modules.module", made)


def _around(switch: Switch, original: Callable[..., Any], loads: bool) -> Callable[..., Any]:
    running: list[Any] = []
    shared_before = switch.guarded(modules.shared_parameters)
    again = switch.guarded(lambda model, shared, loaded: _tie(switch, model, shared, loaded))

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if running:
            return original(self, *args, **kwargs)
        running.append(self)
        try:
            shared = shared_before(self)
            loaded = set(args[0] if args else kwargs.get("state_dict") or ()) if loads else None
            result = original(self, *args, **kwargs)
        finally:
            running.clear()
        again(self, shared or [], loaded)
        return result

    return call


def _tie(switch: Switch, model: Any, shared: list[tuple[str, ...]], loaded: Collection[str] | None) -> None:
    """Tie what came apart to the first name, or to one that was loaded; what was loaded under every name stays."""
    present = dict(model.named_parameters(remove_duplicate=False))
    for names in shared:
        if len({id(present.get(name)) for name in names}) == 1 or not all(name in present for name in names):
            continue
        given = [name for name in names if loaded is not None and name in loaded]
        if len(given) > 1:
            continue
        source = (given or names)[0]
        for name in names:
            owner, _, attribute = name.rpartition(".")
            setattr(model.get_submodule(owner), attribute, present[source])
        switch.changed(f"{', '.join(names)} are one parameter", type(model).__name__)
    _tie_by_configuration(switch, model, loaded)


def _tie_by_configuration(switch: Switch, model: Any, loaded: Collection[str] | None) -> None:
    """Embeddings of Hugging Face models, which tools that build on meta never tie."""
    config = getattr(model, "config", None)
    if not getattr(config, "tie_word_embeddings", False) or not hasattr(model, "get_output_embeddings"):
        return
    first, last = model.get_input_embeddings(), model.get_output_embeddings()
    into, out = getattr(first, "weight", None), getattr(last, "weight", None)
    if into is None or out is None or into is out or into.shape != out.shape:
        return
    names = [name for name, each in model.named_parameters(remove_duplicate=False) if each is out]
    if loaded is not None and any(name in loaded for name in names):
        return
    last.weight = into
    switch.changed("input and output embeddings are one parameter", type(model).__name__)
