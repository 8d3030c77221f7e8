"""A mask that masks nothing is left out, and one that is just causal becomes `is_causal=True`.

A mask is looked at once, not once for each layer. Masks of graphs have no values while they are traced and stay, but
for those of a model of transformers whose blocks are compiled: its masks are made outside of them.
"""

from __future__ import annotations

import sys
import weakref

from trueup_instrument.appliers.attention_calls import change_attention, tells
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

PLAIN, CAUSAL, REAL = "all ones", "causal", "real"
HIDDEN = -9e8
"""A score this low is no weight at all beside one that is not hidden; programs write -1e9."""


def attach(switch: Switch) -> None:
    change_attention(switch, lambda original, torch: _without_plain(switch, original, torch))
    switch.after("transformers.masking_utils", lambda module: _of_models(switch, module))


def _of_models(switch: Switch, module: ModuleType) -> None:
    """The function that makes the masks of decoders: it hands on a mask of four dimensions that it is given.

    For SDPA it makes none itself where there is nothing but causality to hide, and its models then ask for that.
    """
    masks = Masks()
    kind_of = switch.guarded(masks.kind)
    tell = tells(switch, "causal mask replaced by is_causal=True")
    torch: Any = sys.modules["torch"]

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def create(*args: Any, **kwargs: Any) -> Any:
            mask = original(*args, **kwargs)
            config = args[0] if args else kwargs.get("config")
            if not isinstance(mask, torch.Tensor) or torch.compiler.is_compiling():
                return mask
            if getattr(config, "_attn_implementation", None) == "sdpa" and kind_of(mask, mask, mask) == CAUSAL:
                tell()
                return None
            return mask

        return create

    replace(module, "create_causal_mask", make)


def _without_plain(switch: Switch, original: Callable[..., Any], torch: Any) -> Callable[..., Any]:
    masks = Masks()
    kind_of = switch.guarded(masks.kind)
    tell = {
        PLAIN: tells(switch, "mask that masks nothing left out"),
        CAUSAL: tells(switch, "causal mask replaced by is_causal=True"),
    }

    def attention(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **options: Any,
    ) -> Any:
        if attn_mask is not None and not is_causal and not torch.compiler.is_compiling():
            kind = kind_of(attn_mask, query, key)
            if kind in tell:
                tell[kind]()
                attn_mask, is_causal = None, kind == CAUSAL
        return original(query, key, value, attn_mask, dropout_p, is_causal, **options)

    return attention


class Masks:
    """What the masks seen so far are, by tensor and version."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], int, str]] = {}

    def kind(self, mask: Any, query: Any, key: Any) -> str:
        if mask.requires_grad or mask.dim() < 2 or mask.device.type == "meta":
            return REAL
        known = self._known.get(id(mask))
        if known is not None and known[1] == mask._version and known[0]() is mask:
            return known[2]
        kind = _kind(mask, query.size(-2), key.size(-2))
        self._known = {of: each for of, each in self._known.items() if each[0]() is not None}
        self._known[id(mask)] = (weakref.ref(mask), mask._version, kind)
        return kind


def _kind(mask: Any, rows: int, columns: int) -> str:
    """A float mask is added to the scores: 0 changes nothing, and as low as its dtype goes is hidden."""
    torch = sys.modules["torch"]
    with torch.no_grad():
        hidden = ~mask if mask.dtype == torch.bool else mask != 0
        if not bool(hidden.any()):
            return PLAIN
        if mask.shape[-2:] != (rows, columns) or rows != columns:
            return REAL
        above = torch.ones(rows, columns, dtype=torch.bool, device=mask.device).triu(1)
        if not bool((hidden == above).all()):
            return REAL
        if mask.dtype == torch.bool:
            return CAUSAL
        hiding = max(torch.finfo(mask.dtype).min / 2, HIDDEN)
        return CAUSAL if bool((mask.masked_select(above) <= hiding).all()) else REAL
