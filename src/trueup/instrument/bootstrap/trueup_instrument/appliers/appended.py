"""Which lists of a model its code only appends to, read from the bytecode of all that its forward can reach."""

from __future__ import annotations

import dis
import gc
import types

from trueup_instrument.appliers.reached import Unreadable, codes_of, reached_functions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Place = tuple[dict[str, Any], str]
    """(the dictionary of a module or of a Python module, the name of the list in it)."""

INDIRECT = {
    *("__dict__", "vars", "globals", "locals", "eval", "exec", "setattr", "getattr", "copy", "deepcopy"),
    *("__getattribute__", "__getstate__", "__reduce_ex__", "__import__"),
}
"""Names by which code may come to a list without naming it."""
CALLS = ("LOAD_ATTR", "LOAD_METHOD")
NAMING = (*CALLS, "STORE_ATTR", "LOAD_SUPER_ATTR")


def appended_lists(model: Any) -> list[Place]:
    """The lists on the modules of `model`, and those of Python modules, that its code appends to and does nothing else.

    Lists that something else holds as well are left out. Empty where the code comes to attributes in ways that hide
    their names, hands on the module that it is of, or runs what cannot be read.
    """
    try:
        functions = reached_functions(model)
    except Unreadable:
        return []
    codes = [code for function in functions for code in codes_of(function.__code__)]
    names = {name for code in codes for name in code.co_names}
    if names & INDIRECT or not all(_keeps_itself(function) for function in functions):
        return []
    found: list[Place] = []
    for module in model.modules():
        found += [(module.__dict__, name) for name, value in module.__dict__.items() if type(value) is list]
    spaces = {id(function.__globals__): function.__globals__ for function in functions}
    for space in spaces.values():
        found += [(space, name) for name in names if type(space.get(name)) is list]
    found = [each for each in found if each[1] in names and all(_only_appends(code, each[1]) for code in codes)]
    return [each for each in found if _held_by(each)]


def _held_by(place: Place) -> bool:
    """Whether nothing but its place holds the list: code could read it by another name. Variables of calls may."""
    holder, name = place
    values = holder[name]
    if [id(each) for each in holder.values()].count(id(values)) > 1:
        return False
    return all(
        each is holder or getattr(each, "__dict__", None) is holder or isinstance(each, types.FrameType)
        for each in gc.get_referrers(values)
    )


def _only_appends(code: types.CodeType, name: str) -> bool:
    """Whether each mention of the name is that of a list whose `append` is called."""
    if name in code.co_consts or name in (*code.co_freevars, *code.co_cellvars):
        return False
    steps = [each for each in dis.get_instructions(code) if each.opname not in ("CACHE", "PRECALL", "PUSH_NULL")]
    for place, step in enumerate(steps):
        if step.argval == name and step.opname not in ("LOAD_FAST", "STORE_FAST", "LOAD_CONST"):
            follows = steps[place + 1] if place + 1 < len(steps) else None
            loads = step.opname in ("LOAD_ATTR", "LOAD_GLOBAL", "LOAD_NAME")
            if not loads or follows is None or follows.opname not in CALLS or follows.argval != "append":
                return False
    return True


def _keeps_itself(function: types.FunctionType) -> bool:
    """Whether a method does nothing with its module but to name attributes of it."""
    code = function.__code__
    first = code.co_varnames[0] if code.co_argcount else None
    if first != "self":
        return True
    return all(_only_named(each, first) for each in codes_of(code))


def _only_named(code: types.CodeType, variable: str) -> bool:
    steps = [each for each in dis.get_instructions(code) if each.opname not in ("CACHE", "PRECALL", "PUSH_NULL")]
    for place, step in enumerate(steps):
        if "FAST" not in step.opname and "DEREF" not in step.opname:
            continue
        names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        if variable in names:
            follows = steps[place + 1].opname if place + 1 < len(steps) else ""
            if variable in names[:-1] or follows not in NAMING:
                return False
    return True
