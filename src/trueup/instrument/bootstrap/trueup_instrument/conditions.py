"""Under which condition of the user's own a call was made: a switch of the program that was on."""

from __future__ import annotations

import ast
import linecache
import re
import sys

from trueup_instrument import places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import Any

LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
MOST_LINES = 20_000
"""Longer files are not parsed."""

COMPILE = re.compile(r"(?:(?:use|enable|do|with|should|torch)_)*compile(?:_model|_enabled)?")
"""Names of a switch that stands for compilation as a whole; `compile_loss` names what it compiles."""

PARTS = re.compile(r"loss|optim|objective|criterion|metric|sampl|augment|data|attention|kernel|reward", re.IGNORECASE)
"""A section of that name is about a part: `cfg.loss.compile`."""


def compile_switch(frame: FrameType | None = None) -> str | None:
    """Source text of the switch (`cfg.model.compile`) in the condition around the user's call of torch.compile.

    The innermost user frame at or above `frame` (the caller by default) counts. None without such a condition, where
    it must be off or is in a comparison, and where the source cannot be read.
    """
    frame = frame or sys._getframe(1)
    while frame is not None and not places.is_user_file(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return None
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    if not lines or len(lines) > MOST_LINES:
        return None
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError):
        return None
    for test in _tests_that_held(tree, frame.f_lineno):
        for switch in _switches(test):
            return ast.unparse(switch)
    return None


def _tests_that_held(tree: ast.AST, line: int) -> Iterator[ast.expr]:
    """Conditions that must have held for the call of `compile` on that line, as `if` statement or expression.

    Those of the branches around it, and of the statements before it that leave its block: `if not on: return model`.
    """
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.IfExp)):
            if any(_calls_compile(part, line) for part in _parts(node.body)):
                yield node.test
            elif any(_calls_compile(part, line) for part in _parts(node.orelse)):
                yield ast.UnaryOp(ast.Not(), node.test)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                yield from _guards(block, line)


def _parts(branch: Any) -> list[ast.AST]:
    return branch if isinstance(branch, list) else [branch]


def _guards(block: list[ast.stmt], line: int) -> Iterator[ast.expr]:
    """That the tests of the early leaves before the call did not hold."""
    calls = next((place for place, statement in enumerate(block) if _calls_compile(statement, line)), 0)
    for statement in block[:calls]:
        if isinstance(statement, ast.If) and not statement.orelse and isinstance(statement.body[-1], LEAVES):
            yield ast.UnaryOp(ast.Not(), statement.test)


def _calls_compile(branch: ast.AST, line: int) -> bool:
    """Functions that the branch only defines run later, under other conditions."""
    if isinstance(branch, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        decorators = branch.decorator_list
        return any(_names_compile(each, line) or _calls_compile(each, line) for each in decorators)
    if isinstance(branch, ast.Lambda):
        return False
    if isinstance(branch, ast.Call) and _last_name(branch.func) == "compile" and _spans(branch, line):
        return True
    return any(_calls_compile(each, line) for each in ast.iter_child_nodes(branch))


def _names_compile(decorator: ast.expr, line: int) -> bool:
    return _last_name(decorator) == "compile" and _spans(decorator, line)


def _spans(node: ast.expr, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _switches(test: ast.expr) -> Iterator[ast.expr]:
    """The switches that must be on for `test` to hold."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        for value in test.values:
            yield from _switches(value)
        return
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        for value in _denied(test.operand):
            yield from _switches(value)
        return
    names = list(_path(test))
    if names and COMPILE.fullmatch(names[-1].lower()) and names[0] != "torch" and not any(map(PARTS.search, names)):
        yield test


def _denied(test: ast.expr) -> Iterator[ast.expr]:
    """What must hold for `test` not to: X for `not X`, and of `A or B` what must for neither to."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield test.operand
    elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        for value in test.values:
            yield from _denied(value)


def _path(node: ast.expr) -> Iterator[str]:
    """The names of `a.b.c`, `a["b"]`, `a.get("b")` and `getattr(a, "b", None)`; nothing for any other expression."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield from _path(node.value)
        yield node.attr
    elif isinstance(node, ast.Subscript) and _is_text(node.slice):
        yield from _path(node.value)
        yield node.slice.value  # type: ignore[attr-defined]  # a constant
    elif isinstance(node, ast.Call) and _last_name(node.func) == "get" and node.args and _is_text(node.args[0]):
        yield from _path(node.func.value)  # type: ignore[attr-defined]  # an attribute
        yield node.args[0].value  # type: ignore[attr-defined]  # a constant
    elif isinstance(node, ast.Call) and _reads_attribute(node):
        yield from _path(node.args[0])
        yield node.args[1].value  # type: ignore[attr-defined]  # a constant


def _reads_attribute(node: ast.Call) -> bool:
    named = isinstance(node.func, ast.Name) and node.func.id == "getattr"
    return named and len(node.args) > 1 and _is_text(node.args[1])


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _last_name(node: ast.expr) -> str | None:
    """`compile` of `torch.compile`; None for a name alone, save `compile` out of an import."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) and node.id == "compile" else None
