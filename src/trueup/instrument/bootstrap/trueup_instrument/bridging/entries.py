"""A library's own entry point, replaced by one that is an operator within graphs and itself everywhere else."""

from __future__ import annotations

import inspect
import types

from trueup_instrument.appliers.replacing import replace
from trueup_instrument.bridging.operators import captures, define

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Protocol

    Given = dict[str, Any]
    """Arguments of one call by the names of the entry point's parameters, defaults included."""

    class Entry(Protocol):
        """What is known of one entry point."""

        name: str
        """Its name in the module."""
        operator: str
        """`namespace::name`."""
        schema: str
        """Arguments and results of the operator."""

        def carries(self, given: Given) -> bool:
            """Whether the operator can do what this call asks for; what it cannot stays the library's."""

        def pack(self, given: Given) -> tuple[Any, ...]:
            """The arguments of the operator."""

        def run(self, original: Callable[..., Any], *packed: Any) -> tuple[Any, ...]:
            """The results of the operator, which share no memory with its arguments or one another."""

        def fake(self, *packed: Any) -> tuple[Any, ...]:
            """Empty results, of the shapes, dtypes and strides of `run`."""

        def unpack(self, given: Given, results: tuple[Any, ...]) -> Any:
            """What the entry point returns."""


def bridged(torch: Any, original: Callable[..., Any], entry: Entry) -> Callable[..., Any]:
    """`original` in eager calls; where a graph is made, the operator of `entry` around it."""
    parameters = inspect.signature(original).parameters
    names = tuple(parameters)
    defaults = {name: each.default for name, each in parameters.items() if each.default is not inspect.Parameter.empty}

    def run(*packed: Any) -> tuple[Any, ...]:
        return entry.run(original, *packed)

    operator = define(torch, entry.operator, entry.schema, run, entry.fake)
    captured = captures(torch)

    def call(*args: Any, **kwargs: Any) -> Any:
        if not captured():
            return original(*args, **kwargs)
        given = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
        if len(given) != len(names) or not entry.carries(given):  # a wrong call is the library's to refuse
            return original(*args, **kwargs)
        return entry.unpack(given, operator(*entry.pack(given)))

    call._trueup_bridge = operator  # type: ignore[attr-defined]
    return call


def takes(original: Any, needed: Mapping[str, object] | tuple[str, ...], known: frozenset[str]) -> str:
    """Why an entry point is not the one that is known, by its parameters; empty when it is."""
    parameters = inspect.signature(original).parameters
    missing = [name for name in needed if name not in parameters]
    unknown = [name for name in parameters if name not in known]
    told = [f"lacks {', '.join(missing)}"] if missing else []
    told += [f"has {', '.join(unknown)}, which is not known"] if unknown else []
    return " and ".join(told)


def entered(
    torch: Any, module: Any, entries: Sequence[Any], known: frozenset[str], library: str
) -> tuple[list[str], str]:
    """Bridge all of these entry points of a module, or none: (names of those that were, why none was)."""
    found = [getattr(module, each.name, None) for each in entries]
    if any(hasattr(each, "_trueup_bridge") for each in found):
        return [], ""
    if not all(isinstance(each, types.FunctionType) for each in found):
        return [], f"{library} registers operators of its own"
    why = [
        f"{each.name} {told}"
        for each, was in zip(entries, found, strict=True)
        if (told := takes(was, each.needs, known))
    ]
    if why:
        return [], "; ".join(why)
    for each in entries:
        replace(module, each.name, lambda original, entry=each: bridged(torch, original, entry))  # type: ignore[misc]
    return [each.name for each in entries], ""
