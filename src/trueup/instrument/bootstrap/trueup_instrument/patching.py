"""Put a look before and after a library's set-up function, leaving its result, errors and signature alone."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Before = Callable[[tuple[Any, ...], dict[str, Any]], object]
    """Of the arguments of a call; what it returns is given to `After`."""
    After = Callable[[Any, tuple[Any, ...], dict[str, Any], Any], object]
    """Of the result of a call, its arguments, and what `Before` returned."""
    Arguments = Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any]]
    """The arguments of a call by name."""

    from trueup_instrument.session import Session

MARK = "__trueup_observed__"
"""Attribute of a replacement that holds the replacement itself: a copy made by `functools.wraps` is none of ours."""


class _Groups(threading.local):
    """The groups of observed calls that this thread is inside of. None is no group."""

    def __init__(self) -> None:
        self.entered: set[str | None] = set()

    def enter(self, group: str | None) -> None:
        if group is not None:
            self.entered.add(group)

    def leave(self, group: str | None) -> None:
        self.entered.discard(group)


_groups = _Groups()


def around(
    session: Session,
    observer: str,
    owner: Any,
    name: str,
    before: Before | None = None,
    after: After | None = None,
    group: str | None = None,
) -> bool:
    """Replace `owner.name` by one that calls `before(args, kwargs)` and `after(result, args, kwargs, seen)` around it.

    `seen` is what `before` returned. Both are guarded: a failure switches `observer` off and the call goes on. Nothing
    happens inside code that Dynamo traces. Of calls of one `group` that are nested only the outermost is looked at.
    Class methods and static methods stay what they are. Returns False when `owner` has no such attribute.
    """
    original = getattr(owner, name, None)
    if original is None or is_observed(original):
        return False
    descriptor = owner.__dict__.get(name) if isinstance(owner, type) else None
    if isinstance(descriptor, (staticmethod, classmethod)):
        original = descriptor.__func__
    else:
        descriptor = None
    look_before = session.guarded(observer, before) if before else None
    look_after = session.guarded(observer, after) if after else None
    is_compiling = is_compiling_question()
    groups = _groups

    @functools.wraps(original)
    def observed(*args: Any, **kwargs: Any) -> Any:
        if is_compiling() or group in groups.entered:
            return original(*args, **kwargs)
        groups.enter(group)
        try:
            seen = look_before(args, kwargs) if look_before is not None else None
            result = original(*args, **kwargs)
            if look_after is not None:
                look_after(result, args, kwargs, seen)
            return result
        finally:
            groups.leave(group)

    setattr(observed, MARK, observed)
    present = owner.__dict__.get(name)
    put = type(descriptor)(observed) if descriptor is not None else observed
    setattr(owner, name, put)
    if isinstance(owner, types.ModuleType):
        _replace_elsewhere(original, observed, name, everywhere=session.late)
        session.undo.append(lambda: _replace_elsewhere(observed, original, name, everywhere=session.late))
    session.undo.append(lambda: take_away(owner, name, put, present))
    return True


def take_away(owner: Any, name: str, put: Any, present: Any) -> str | None:
    """Make `owner.name` what it was before `put` came; `present` is None where it was inherited.

    Returns what stays, in words: a replacement that others have put something in front of.
    """
    if owner.__dict__.get(name) is not put:
        return f"{getattr(owner, '__name__', owner)}.{name}, which something else has replaced since"
    if present is None:
        delattr(owner, name)
    else:
        setattr(owner, name, present)
    return None


def is_observed(function: Any) -> bool:
    """True for a replacement of ours itself, not for a function that copied its attributes."""
    function = getattr(function, "__func__", function)
    mark = getattr(function, MARK, None)
    return mark is not None and mark is function


def is_inside(group: str | None) -> bool:
    """Whether this thread is within an observed call of `group`."""
    return group in _groups.entered


def arguments_of(function: Callable[..., Any]) -> Arguments:
    """A function of (args, kwargs) that gives the arguments of a call of `function` by name, defaults included.

    It gives nothing for a call that will fail because its arguments do not fit: that error is the program's own.
    """
    signature = inspect.signature(function)

    def arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return {}
        bound.apply_defaults()
        return bound.arguments

    return arguments


def _replace_elsewhere(
    original: Callable[..., Any], observed: Callable[..., Any], name: str, everywhere: bool = False
) -> None:
    """Other modules of the same library that took the function by name get the observed one too; or all modules."""
    package = (original.__module__ or "").partition(".")[0]
    for module_name, module in list(sys.modules.items()):
        concerned = (everywhere or module_name.partition(".")[0] == package) and isinstance(module, types.ModuleType)
        if concerned and module.__dict__.get(name) is original:
            setattr(module, name, observed)


def dress(replacement: Any, original: Callable[..., Any]) -> None:
    """Give `replacement` the name, signature and documentation of `original`, and mark it as ours."""
    functools.update_wrapper(replacement, original)
    setattr(replacement, MARK, replacement)


def is_compiling_question() -> Callable[[], bool]:
    """torch's own `is_compiling`, or a constant No while torch is not there."""
    torch = sys.modules.get("torch")
    compiler = getattr(torch, "compiler", None)
    question = getattr(compiler, "is_compiling", None)
    return question if question is not None else (lambda: False)
