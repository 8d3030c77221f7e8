"""The schema of an operator, out of the signature of a function."""

from __future__ import annotations

import inspect
import typing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

KINDS = {
    "Tensor", "Tensor?", "Tensor[]", "float", "float?", "int", "int?", "SymInt", "SymInt?", "int[]", "SymInt[]",
    "float[]", "bool", "bool?", "str", "str?",
}  # fmt: skip
"""Types of arguments that an operator can have."""
WHOLE = {"int": "SymInt", "int?": "SymInt?", "int[]": "SymInt[]"}
"""A length that differs from batch to batch is one for every graph only as a symbolic integer."""


class CannotBridge(ValueError):
    """The function cannot become an operator as it was described; says what to give."""


class Argument(typing.NamedTuple):
    name: str
    kind: str
    default: Any
    """`inspect.Parameter.empty` for none."""


def arguments_of(torch: Any, function: Callable[..., Any], given: Mapping[str, str]) -> tuple[Argument, ...]:
    """The arguments of `function`, of the kinds `given` by name, annotated, or told by the default.

    A parameter with neither is a tensor. Raises CannotBridge for what no operator can take.
    """
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        raise CannotBridge(
            f"{_name(function)} tells no signature, as functions of C++ extensions do not: bridge a Python function "
            "that calls it"
        ) from None
    unknown = [name for name in given if name not in parameters]
    if unknown:
        raise CannotBridge(
            f"arguments= names {', '.join(unknown)}, which {_name(function)} does not take; it takes "
            + ", ".join(parameters)
        )
    try:
        hints = typing.get_type_hints(function)
    except Exception:  # names that exist for type checkers only
        hints = {}
    return tuple(
        _argument(torch, function, each, given.get(each.name), hints.get(each.name)) for each in parameters.values()
    )


def _argument(torch: Any, function: Any, parameter: inspect.Parameter, given: str | None, hint: Any) -> Argument:
    if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        raise CannotBridge(
            f"{_name(function)} takes {parameter}: bridge a function that names what it takes, which an operator must"
        )
    kind = given or _hinted(torch, hint) or _told_by(parameter.default)
    if kind is None:
        raise CannotBridge(
            f"the kind of {parameter.name} of {_name(function)} is not known (annotation {hint!r}, default "
            f"{parameter.default!r}): say it, as in arguments={{{parameter.name!r}: 'float?'}}"
        )
    if kind not in KINDS:
        raise CannotBridge(
            f"{kind!r} for {parameter.name} is no kind of argument; choose from {', '.join(sorted(KINDS))}"
        )
    return Argument(parameter.name, WHOLE.get(kind, kind), parameter.default)


def _hinted(torch: Any, hint: Any) -> str | None:
    plain = {torch.Tensor: "Tensor", float: "float", int: "int", bool: "bool", str: "str"}
    if hint in plain:
        return plain[hint]
    inner = typing.get_args(hint)
    origin = typing.get_origin(hint)
    if type(None) in inner:
        rest = [each for each in inner if each is not type(None)]
        found = _hinted(torch, rest[0]) if len(rest) == 1 else None
        return f"{found}?" if found and "[" not in found else None
    if origin in (tuple, list) and inner:
        kinds = {_hinted(torch, each) for each in inner if each is not Ellipsis}
        kind = kinds.pop() if len(kinds) == 1 else None
        return f"{kind}[]" if kind in ("int", "float", "Tensor") else None
    return None


def _told_by(default: Any) -> str | None:
    if default is inspect.Parameter.empty:
        return "Tensor"
    for kind in (bool, int, float, str):
        if type(default) is kind:
            return kind.__name__
    if isinstance(default, (tuple, list)) and default and all(type(each) is int for each in default):
        return "int[]"
    return None


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or function)
