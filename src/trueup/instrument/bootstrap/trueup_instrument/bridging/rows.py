"""What flash attention of transformers asks of the values of a batch, asked once, before compiled code is called.

A mask of ones is left out. A single row gets the boundaries of its documents, with lengths as plain integers: their
longest, rounded up, since an upper bound is all that a kernel needs and each new number makes a new graph.
"""

from __future__ import annotations

import inspect
import sys
import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Arguments = dict[str, Any]

FLASH = "transformers.modeling_flash_attention_utils"
BOUNDARIES = ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k")
CACHES = ("past_key_values", "past_key_value", "cache")
MULTIPLE = 128
"""Lengths are rounded up to this many tokens: the tile of the kernels."""


def rounded(length: int, multiple: int = MULTIPLE) -> int:
    return -(-length // multiple) * multiple


class Asked:
    """What was last asked of a tensor: every block of a model is given the same one."""

    def __init__(self, ask: Callable[[Any], Any]) -> None:
        self._ask, self._answer = ask, None
        self._seen: tuple[Callable[[], Any], int] | None = None

    def of(self, tensor: Any) -> Any:
        if self._seen is None or self._seen[0]() is not tensor or self._seen[1] != tensor._version:
            self._answer = self._ask(tensor)
            self._seen = weakref.ref(tensor), tensor._version
        return self._answer


class Rows:
    """The rows that models and blocks of transformers are called with."""

    def __init__(self) -> None:
        self._whole = Asked(lambda mask: bool(mask.all()))
        self._boundaries = Asked(boundaries)
        self._plain: dict[Any, Arguments] = {}
        self._configs = Configs()

    def prepared(self, module: Any, args: tuple[Any, ...], kwargs: Arguments) -> tuple[Arguments, list[str]]:
        """The keyword arguments to call with, and what was changed: nothing for a module without flash attention."""
        taken = bound(module, args, kwargs)
        if taken is None or not self._configs.use_flash(module):
            return kwargs, []
        changes: list[str] = []
        mask = kwargs.get("attention_mask")
        if mask is not None and mask.ndim == 2 and self._can_go(taken) and self._whole.of(mask):
            kwargs = {**kwargs, "attention_mask": None}
            taken["attention_mask"] = None
            changes.append("mask of ones left out")
        for name in BOUNDARIES[:2]:
            if taken.get(name) is not None:
                _any_number(taken[name])
        passed = self._passed(taken)
        if passed:
            changes.append("boundaries of documents passed")
        return {**kwargs, **passed}, changes

    def _can_go(self, taken: Arguments) -> bool:
        return all(taken.get(name) is None for name in CACHES)

    def _passed(self, taken: Arguments) -> Arguments:
        """The boundaries of a single row that nobody passes, without a mask and a cache."""
        stays = ("attention_mask", *CACHES, *BOUNDARIES)
        rows = taken.get("input_ids") if taken.get("input_ids") is not None else taken.get("inputs_embeds")
        rows = taken.get("hidden_states") if rows is None else rows
        if rows is None or rows.ndim < 2 or rows.shape[0] != 1 or rows.shape[1] < 2:
            return {}
        if any(taken.get(name) is not None for name in stays):
            return {}
        ids = taken.get("position_ids")
        if ids is None:
            return self._of_one(rows) if taken.get("hidden_states") is None and not taken.get("use_cache") else {}
        if ids.ndim != 2 or tuple(ids.shape) != tuple(rows.shape[:2]):
            return {}
        found: Arguments = self._boundaries.of(ids)
        return found

    def _of_one(self, rows: Any) -> Arguments:
        """A row whose positions the model itself will count: one document."""
        key = rows.shape[1], rows.device
        if key not in self._plain:
            self._plain = {key: named(_starts([0, rows.shape[1]], rows.device), rows.shape[1])}
        return self._plain[key]


def boundaries(ids: Any) -> Arguments:
    """Those of the documents of one row of position ids, with the library's own function.

    Empty for a row whose first document does not begin where the library has one begin: what it makes of that is its
    own.
    """
    (starts, _), (longest, _) = sys.modules[FLASH].prepare_fa_kwargs_from_position_ids(ids)
    torch = sys.modules["torch"]
    first, length = torch.stack((starts[0].to(torch.int64), torch.as_tensor(longest).to(starts.device))).tolist()
    return named(starts, length) if first == 0 else {}


def named(starts: Any, longest: int) -> Arguments:
    """The arguments by which models of transformers take boundaries."""
    length = rounded(longest)
    both = starts, starts.clone()  # two, as `trueup.attention.packed` gives them: Dynamo guards which inputs are one
    for each in both:
        _any_number(each)
    return dict(zip(BOUNDARIES, (*both, length, length), strict=True))


def _starts(places: list[int], device: Any) -> Any:
    torch = sys.modules["torch"]
    return torch.tensor(places, dtype=torch.int32, device=device)


def _any_number(starts: Any) -> None:
    """Have Dynamo make one graph for any number of documents."""
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is not None and hasattr(dynamo, "maybe_mark_dynamic"):
        dynamo.maybe_mark_dynamic(starts, 0)


def bound(module: Any, args: tuple[Any, ...], kwargs: Arguments) -> Arguments | None:
    """The arguments of a call by name; None for a module that passes none on to its attention."""
    if not hasattr(sys.modules.get(FLASH), "prepare_fa_kwargs_from_position_ids"):
        return None
    try:
        found = inspect.signature(module.forward).bind(*args, **kwargs)
    except TypeError:
        return None
    extra = next(
        (name for name, each in found.signature.parameters.items() if each.kind is inspect.Parameter.VAR_KEYWORD), None
    )
    if extra is None or BOUNDARIES[0] in found.signature.parameters:
        return None
    taken = {**found.arguments}
    taken.update(taken.pop(extra, {}))
    return taken


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
