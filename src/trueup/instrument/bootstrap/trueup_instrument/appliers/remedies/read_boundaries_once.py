"""Flash attention of transformers is told where documents begin: it then looks at no position ids within the graph.

Of a single row without a mask it asks the values of its position ids, in each layer, whether documents are packed.
The boundaries are read once, with the library's own function, before compiled code is called.
"""

from __future__ import annotations

import inspect
import sys
import weakref

from trueup_instrument.appliers.compiled_calls import around_compiled_calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

FLASH = "transformers.modeling_flash_attention_utils"
BOUNDARIES = ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k")


def attach(switch: Switch) -> None:
    boundaries, configs = Boundaries(), Configs()

    def around(module: Any, arguments: Any) -> tuple[Any, None]:
        args, kwargs = arguments
        ids = given(module, args, kwargs)
        passed = boundaries.of(ids) if ids is not None and configs.use_flash(module) else {}
        if passed:
            switch.changed("boundaries of documents passed", type(module).__name__)
        return (args, {**kwargs, **passed}), None

    around_compiled_calls(switch, around)


class Boundaries:
    """Those of the position ids that were seen last: every block of a model is given the same."""

    def __init__(self) -> None:
        self._seen: tuple[Callable[[], Any], int] | None = None
        self._last: dict[str, Any] = {}

    def of(self, ids: Any) -> dict[str, Any]:
        """Empty for a row whose first document does not begin where the library has one begin: what it makes of that
        is its own.
        """
        if self._seen is None or self._seen[0]() is not ids or self._seen[1] != ids._version:
            starts, longest = sys.modules[FLASH].prepare_fa_kwargs_from_position_ids(ids)
            whole = int(starts[0][0]) == 0
            values = (*starts, *(int(each) for each in longest)) if whole else ()
            self._last = dict(zip(BOUNDARIES, values, strict=True)) if whole else {}
            self._seen = weakref.ref(ids), ids._version
        return self._last


def given(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The position ids of a call whose boundaries nobody passes: of one row, with no mask and no cache; else None."""
    if not hasattr(sys.modules.get(FLASH), "prepare_fa_kwargs_from_position_ids"):
        return None
    try:
        bound = inspect.signature(module.forward).bind(*args, **kwargs)
    except TypeError:
        return None
    taken = {**bound.arguments}
    extra = next(
        (name for name, each in bound.signature.parameters.items() if each.kind is inspect.Parameter.VAR_KEYWORD), None
    )
    if extra is None or BOUNDARIES[0] in bound.signature.parameters:
        return None
    taken.update(taken.pop(extra, {}))
    ids = taken.get("position_ids")
    if ids is None or ids.ndim != 2 or ids.shape[0] != 1 or ids.shape[1] < 2:
        return None
    stays = ("attention_mask", "past_key_values", "past_key_value", *BOUNDARIES)
    return ids if all(taken.get(name) is None for name in stays) else None


class Configs:
    """The configs of the models that were asked about, and of their parts."""

    def __init__(self) -> None:
        self._found: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()

    def use_flash(self, module: Any) -> bool:
        """Whether the attention of a model of transformers, or of one of its blocks, is a flash kernel."""
        found = self._found.get(module)
        if found is None:
            configs = [getattr(each, "config", None) for each in module.modules()]
            found = self._found[module] = list({id(each): each for each in configs}.values())
        return any("flash" in str(getattr(config, "_attn_implementation", None)) for config in found)
