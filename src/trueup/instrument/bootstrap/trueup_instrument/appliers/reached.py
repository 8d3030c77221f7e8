"""The functions of the program that a call of a model can run: by the names that their code uses.

What those names stand for is looked up on the modules and objects that code can come to; functions of libraries are
taken to do nothing to the attributes of a model but through the functions that they are given.
"""

from __future__ import annotations

import builtins
import collections
import dis
import functools
import sys
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

LIBRARIES = {
    *("torch", "numpy", "builtins", "math", "functools", "itertools", "collections", "typing", "typing_extensions"),
    *("abc", "enum", "dataclasses", "contextlib", "logging", "warnings", "time", "re"),
}
OPAQUE = {"torch", "numpy", "typing", "abc", "enum", "logging", "re"}
"""Libraries whose objects run no code of the program; modules of torch are looked at all the same."""
OURS = "trueup_instrument"
HOOKS = ("_forward_hooks", "_forward_pre_hooks")
GLOBAL_HOOKS = ("_global_forward_hooks", "_global_forward_pre_hooks")
PLAIN = (int, float, complex, str, bytes, bool, type(None), type(...), type(NotImplemented), slice, range)
SEQUENCES = (list, tuple, set, frozenset, collections.deque)
DICTIONARIES = (dict, collections.OrderedDict, collections.defaultdict)
CACHED = type(functools.cache(len))
OF_C = (
    types.BuiltinFunctionType,
    types.MethodWrapperType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)
"""Functions and attributes written in C."""
ASKED_FOR = {
    *("__init__", "__new__", "__del__", "__init_subclass__", "__class_getitem__", "__set_name__"),
    *("__repr__", "__str__", "__dir__", "__sizeof__", "__getstate__", "__setstate__", "__reduce__", "__reduce_ex__"),
    *("__copy__", "__deepcopy__"),
}
"""Methods that no operator calls on what exists already."""


class Unreadable(Exception):
    """A call can run something whose code is not looked at."""


def reached_functions(model: Any) -> list[types.FunctionType]:
    """All functions that a call of `model` with plain arguments can run. Raises Unreadable."""
    walk = _Walk(model)
    walk.go()
    return list(walk.functions.values())


def plain(value: Any) -> bool:
    """Whether an argument is of numbers, texts and tensors, none of which runs code of the program."""
    kind = type(value)
    if kind in SEQUENCES:
        return all(plain(each) for each in value)
    if kind in DICTIONARIES:
        return all(plain(each) for each in value.values())
    return kind in PLAIN or (kind.__module__.partition(".")[0] == "torch" and not callable(value))


def codes_of(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code and those of the functions that it defines."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_of(constant)


class _Walk:
    """From a model on, over all that its code can come to, until no new name leads to anything new."""

    def __init__(self, model: Any) -> None:
        self.module_kind = sys.modules["torch"].nn.Module
        self.functions: dict[int, types.FunctionType] = {}
        self.names = {"forward"}
        self.holders: dict[int, Any] = {}
        self.kinds: dict[type, None] = {}
        self.seen: set[int] = set()
        self.waiting: list[Any] = [model]
        spaces = sys.modules["torch.nn.modules.module"]
        for hooks in GLOBAL_HOOKS:
            self.waiting += getattr(spaces, hooks, {}).values()

    def go(self) -> None:
        while self.waiting:
            while self.waiting:
                self._take(self.waiting.pop())
            self.waiting += [value for value in self._named() if id(value) not in self.seen]

    def _named(self) -> Iterator[Any]:
        """What the names stand for on all that holds attributes."""
        for holder in self.holders.values():
            for name in self.names & holder.__dict__.keys():
                yield holder.__dict__[name]
        for kind in self.kinds:
            for base in kind.__mro__:
                for name in self.names & vars(base).keys():
                    value = vars(base)[name]
                    if isinstance(value, types.FunctionType) or not _library(base.__module__):
                        yield value

    def _take(self, value: Any) -> None:
        kind = type(value)
        if kind in PLAIN or id(value) in self.seen:
            self.seen.add(id(value))
            return
        self.seen.add(id(value))
        if kind is types.FunctionType:
            self._function(value)
        elif kind in SEQUENCES:
            self.waiting += value
        elif kind in DICTIONARIES:
            self.waiting += value.values()
        elif kind in (functools.partial, functools.partialmethod):
            self.waiting += (value.func, *value.args, *value.keywords.values())
        elif kind is functools.cached_property:
            self.waiting.append(value.func)
        elif kind is CACHED:
            self.waiting.append(value.__wrapped__)
        elif kind is property:
            self.waiting += (value.fget, value.fset)
        elif kind is types.MethodType:
            self.waiting += (value.__func__, value.__self__)
        elif kind in (staticmethod, classmethod):
            self.waiting.append(value.__func__)
        elif kind in OF_C:
            self.waiting.append(getattr(value, "__self__", None))
        elif issubclass(kind, types.ModuleType):
            _readable(value.__name__, _library(value.__name__))
        elif issubclass(kind, type):
            self._made(value)
        else:
            self._instance(value)

    def _function(self, function: types.FunctionType) -> None:
        space = function.__globals__
        root = str(space.get("__name__")).partition(".")[0]
        self.waiting.append(getattr(function, "__wrapped__", None))
        if root == OURS:
            return
        self.waiting += (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            for value in _content(cell):
                if name == "__class__":
                    self._kind(value)
                else:
                    self.waiting.append(value)
        if root in LIBRARIES:
            return
        self.functions[id(function)] = function
        for code in codes_of(function.__code__):
            self.names.update(code.co_names)
            for step in dis.get_instructions(code):
                if step.opname == "IMPORT_NAME":
                    _readable(step.argval, _library(step.argval))
                elif step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                    name = step.argval
                    _readable(name, name in space or hasattr(builtins, name))
                    self.waiting.append(space.get(name))

    def _made(self, kind: type) -> None:
        """A class that code names may be called: all of its methods count."""
        if _library(kind.__module__):
            return
        _readable(kind.__name__, type(kind) is type or _library(type(kind).__module__))
        _written(kind)
        for base in kind.__mro__:
            if not _library(base.__module__):
                self.waiting += _methods(vars(base).values())

    def _kind(self, kind: type) -> None:
        """A class of something that exists: its methods count by their names, and those that operators call."""
        if kind in self.kinds:
            return
        self.kinds[kind] = None
        for base in kind.__mro__:
            if not _library(base.__module__):
                called = [each for name, each in vars(base).items() if name[:2] == "__" and name not in ASKED_FOR]
                self.waiting += _methods(called)

    def _instance(self, value: Any) -> None:
        kind = type(value)
        if issubclass(kind, self.module_kind):
            for module in value.modules():
                self.seen.add(id(module))
                self.holders[id(module)] = module
                self._kind(type(module))
                for hooks in HOOKS:
                    self.waiting += module.__dict__.get(hooks, {}).values()
        elif kind is not object and kind.__module__.partition(".")[0] not in OPAQUE:
            _written(kind)
            _readable(
                kind.__name__, hasattr(value, "__dict__") and not any(vars(b).get("__slots__") for b in kind.__mro__)
            )
            self.holders[id(value)] = value
            self._kind(kind)


def _methods(values: Iterable[Any]) -> list[Any]:
    return [each for each in values if type(each) in (types.FunctionType, property, staticmethod, classmethod)]


def _written(kind: type) -> None:
    """Raises Unreadable for a class that is not written in Python, by the program or what it has installed."""
    root = kind.__module__.partition(".")[0]
    bases = [base for base in kind.__mro__ if not _library(base.__module__)]
    stored = issubclass(kind, (*SEQUENCES, *DICTIONARIES))
    _readable(kind.__name__, root not in sys.stdlib_module_names and not stored and bool(bases))


def _library(name: Any) -> bool:
    return str(name).partition(".")[0] in LIBRARIES


def _readable(name: str, readable: bool) -> None:
    if not readable:
        raise Unreadable(name)


def _content(cell: types.CellType) -> Iterator[Any]:
    try:
        yield cell.cell_contents
    except ValueError:  # not bound yet
        return
