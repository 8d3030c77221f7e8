"""The arguments of one call of a model, by name, and the same call with one of them replaced."""

from __future__ import annotations

import copy
import inspect

from trueup_instrument import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    Path = tuple[str | int, ...]
    """Position or name of an argument, and for one that is a mapping a key of it."""

TOKENS = ("input_ids", "tokens", "token_ids", "ids", "idx", "inputs", "input", "x")
OTHERS = ("label", "target", "mask", "pos", "type", "segment", "seq", "cu_", "doc", "length", "lens", "index")
"""Parts of names of whole-number arguments that are no tokens."""
EMBEDDED = ("inputs_embeds", "input_embeds", "inputs_embeddings")
CACHES = ("past_key_values", "past_key_value", "cache", "kv_cache")


class Call:
    """How a model was called."""

    def __init__(self, model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.args = args
        self.kwargs = dict(kwargs)
        self.paths: dict[str, Path] = {}
        for name, path, value in self._arguments(_parameters(model)):
            if isinstance(value, dict) or hasattr(value, "items"):
                for key in list(value):
                    if isinstance(key, str):
                        self.paths.setdefault(key, (*path, key))
            else:
                self.paths.setdefault(name, path)

    def _arguments(self, names: list[str]) -> Iterator[tuple[str, Path, Any]]:
        for place, value in enumerate(self.args):
            yield names[place] if place < len(names) else f"argument {place + 1}", (place,), value
        for name, value in self.kwargs.items():
            yield name, (name,), value

    @property
    def named(self) -> dict[str, Any]:
        """Argument or key of a mapping → value, without those that are None."""
        found = {name: self._at(path) for name, path in self.paths.items()}
        return {name: value for name, value in found.items() if value is not None}

    def _at(self, path: Path) -> Any:
        value: Any = self.args[path[0]] if isinstance(path[0], int) else self.kwargs[path[0]]
        return value[path[1]] if len(path) > 1 else value

    def tokens(self) -> str | None:
        """The argument that holds token ids of shape (rows, positions) or (positions,), else the embedded tokens."""
        named = self.named
        whole = {name: value for name, value in named.items() if is_whole(value) and value.dim() in (1, 2)}
        for name in TOKENS:
            if name in whole:
                return name
        for name, value in whole.items():
            if value.dim() == 2 and not any(part in name for part in OTHERS):
                return name
        return next((name for name in EMBEDDED if is_floating(named.get(name)) and named[name].dim() == 3), None)

    def replaced(self, name: str, value: Any) -> Call:
        """This call with another value for `name`, and with copies of caches, which a forward pass fills."""
        made = copy.copy(self)
        made.args, made.kwargs = tuple(self.args), dict(self.kwargs)
        made._put(self.paths[name], value)
        for cache in CACHES:
            if cache in self.paths and self._at(self.paths[cache]) is not None:
                made._put(self.paths[cache], copy.deepcopy(self._at(self.paths[cache])))
        return made

    def _put(self, path: Path, value: Any) -> None:
        if len(path) > 1:
            holder = self.args[path[0]] if isinstance(path[0], int) else self.kwargs[path[0]]
            held = copy.copy(holder)
            held[path[1]] = value
            value = held
        if isinstance(path[0], int):
            self.args = (*self.args[: path[0]], value, *self.args[path[0] + 1 :])
        else:
            self.kwargs[path[0]] = value


def _parameters(model: Any) -> list[str]:
    """Names of the positional parameters of the user's own forward, beneath wrappers."""
    inner = modules.beneath_adapters(modules.bare(model))
    try:
        parameters = inspect.signature(inner.forward).parameters.values()
    except (TypeError, ValueError):
        return []
    return [each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]


def is_tensor(value: Any) -> bool:
    return hasattr(value, "is_floating_point") and hasattr(value, "dim")


def is_floating(value: Any) -> bool:
    return is_tensor(value) and bool(value.is_floating_point())


def is_whole(value: Any) -> bool:
    """Whether it is a tensor of whole numbers; truth values are none."""
    return is_tensor(value) and str(value.dtype) in ("torch.int64", "torch.int32")
