"""Which lists of a model its code only appends to, read from the bytecode of all that its forward can reach."""

from __future__ import annotations

import dis
import gc
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Place = tuple[dict[str, Any], str]
    """(the dictionary of a module or of a Python module, the name of the list in it)."""

INDIRECT = {"__dict__", "vars", "globals", "locals", "eval", "exec", "setattr", "getattr", "copy", "deepcopy"}
"""Names by which code may come to a list without naming it."""
HOOKS = ("_forward_hooks", "_forward_pre_hooks")
LIBRARIES = ("torch", "numpy")
CALLS = ("LOAD_ATTR", "LOAD_METHOD")


def appended_lists(model: Any) -> list[Place]:
    """The lists on the modules of `model`, and those of Python modules, that its code appends to and does nothing else.

    Lists that something else holds as well are left out. Empty where the code comes to attributes in ways that hide
    their names.
    """
    functions = _reached(model)
    codes = [code for function in functions for code in _codes(function.__code__)]
    names = {name for code in codes for name in code.co_names}
    if names & INDIRECT:
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


def _reached(model: Any) -> list[types.FunctionType]:
    """The functions of the program that a call of the model can run: by the names that their code uses."""
    modules = list(model.modules())
    classes = {type(module) for module in modules}
    waiting = [function for kind in classes for function in _functions(getattr(kind, "forward", None))]
    for module in modules:
        waiting += _functions(module.__dict__.get("forward"))
        for hooks in HOOKS:
            for hook in getattr(module, hooks, {}).values():
                waiting += _functions(hook)
    found: dict[types.CodeType, types.FunctionType] = {}
    while waiting:
        function = waiting.pop()
        if function.__code__ in found or (function.__module__ or "").partition(".")[0] in LIBRARIES:
            continue
        found[function.__code__] = function
        for code in _codes(function.__code__):
            for name in code.co_names:
                waiting += _functions(function.__globals__.get(name))
                for kind in classes:
                    waiting += _functions(getattr(kind, name, None))
        for cell in function.__closure__ or ():
            waiting += [each for value in _content(cell) for each in _functions(value)]
    return list(found.values())


def _content(cell: types.CellType) -> Iterator[Any]:
    try:
        yield cell.cell_contents
    except ValueError:  # not bound yet
        return


def _functions(thing: Any) -> Iterator[types.FunctionType]:
    """The functions behind a function, a method or a property."""
    if isinstance(thing, property):
        thing = thing.fget
    thing = getattr(thing, "__func__", thing)
    if isinstance(thing, types.FunctionType):
        yield thing


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code and those of the functions that it defines."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)
