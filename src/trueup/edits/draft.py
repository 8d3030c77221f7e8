"""What one remedy changes, while it is put together."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from typing import TypeGuard

import libcst as cst

from trueup.edits.changes import edit
from trueup.edits.job import Job, edits_of
from trueup.edits.python_source import Rewriting, Source, Statement
from trueup.schema.finding import Finding
from trueup.schema.fixing import Edit

IMPORT_TORCH = "import torch"


class Draft:
    """The files that one remedy for one finding changes."""

    def __init__(self, job: Job, finding: Finding) -> None:
        self.job = job
        self.finding = finding
        self.command: tuple[str, ...] | None = None
        """The launch command with other words, where that is the change."""
        self._rewritings: dict[str, Rewriting] = {}
        self._texts: dict[str, str] = {}

    def of(self, source: Source) -> Rewriting:
        """The changes of one Python file."""
        return self._rewritings.setdefault(source.path, Rewriting(source))

    def replace(self, path: str, text: str) -> None:
        """Give a file that is not Python another text."""
        self._texts[path] = text

    def edits(self) -> tuple[Edit, ...]:
        texts = ((path, self.job.text(path), text) for path, text in self._texts.items())
        changed = (edit(path, before, after) for path, before, after in texts if before is not None)
        return (*edits_of(*self._rewritings.values()), *(each for each in changed if each is not None))

    def require(self, source: Source, line: str) -> None:
        """Have `line`, an import, at the top of a file, unless what it binds is bound there."""
        if line not in _imports(source):
            anchor = last_import(source)
            if anchor is not None and line.startswith("from "):
                self.of(source).insert_after(anchor, line)
            else:
                first = _first(source)
                self.of(source).insert_before(first, line, apart=not _is_standard(source.code(first)))

    def set_line(self, source: Source, code: str) -> None:
        """Have `code` run at the top of a file, once torch is imported."""
        if not binds_torch(source):
            self.require(source, IMPORT_TORCH)
        anchor = last_import(source)
        if anchor is not None:
            self.of(source).insert_after(anchor, f"\n{code}")
        else:
            self.of(source).insert_before(_first(source), code)


Editor = Callable[[Draft], bool]
"""Fills a draft; False when the change cannot be written, whatever it has put into it."""


def literal(node: cst.CSTNode | None) -> object:
    """The value of a literal; the node itself when it is none."""
    if isinstance(node, cst.Name) and node.value in ("True", "False", "None"):
        return ast.literal_eval(node.value)
    if isinstance(node, (cst.SimpleString, cst.Integer, cst.Float)):
        return ast.literal_eval(node.value)
    return node


def assigned(statement: Statement) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """Target and value of a line that is one assignment to one name or attribute."""
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    line = statement.body[0]
    if isinstance(line, cst.AnnAssign) and line.value is not None:
        return line.target, line.value
    if not isinstance(line, cst.Assign) or len(line.targets) != 1:
        return None
    target = line.targets[0].target
    return (target, line.value) if isinstance(target, (cst.Name, cst.Attribute)) else None


def is_place(node: cst.CSTNode) -> bool:
    """Whether an expression can be written twice: a name, an attribute or an item of one."""
    if isinstance(node, cst.Name):
        return True
    if isinstance(node, cst.Subscript):
        return is_place(node.value)
    return isinstance(node, cst.Attribute) and is_place(node.value)


def is_statement(node: cst.CSTNode) -> TypeGuard[Statement]:
    return isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement))


def last_name(node: cst.CSTNode) -> str:
    """`c` of `a.b.c` and `a.b.c()`."""
    if isinstance(node, cst.Call):
        return last_name(node.func)
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return node.value if isinstance(node, cst.Name) else ""


def binds_torch(source: Source) -> bool:
    """Whether the name `torch` is the library at the top of the file."""
    lines = [line for line in _imports(source) if " as " not in line]
    return any(line == IMPORT_TORCH or line.startswith(f"{IMPORT_TORCH}.") for line in lines)


def last_import(source: Source) -> Statement | None:
    """The last of the imports with which a file begins; those up to torch may have other lines between them."""
    found: Statement | None = None
    has_torch = False
    for statement in source.module.body:
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef, cst.For, cst.While, cst.With)):
            break
        if _is_import(statement):
            found = statement
            has_torch = has_torch or "torch" in source.code(statement)
        elif has_torch:
            break
    return found


def _is_import(statement: cst.CSTNode) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and any(
        isinstance(line, (cst.Import, cst.ImportFrom)) for line in statement.body
    )


def _imports(source: Source) -> list[str]:
    """The import lines at the top level, one name a line."""
    lines: list[str] = []
    for statement in source.module.body:
        if not isinstance(statement, cst.SimpleStatementLine):
            continue
        for line in statement.body:
            if isinstance(line, cst.Import):
                lines += [f"import {source.code(alias).rstrip(', ')}" for alias in line.names]
            elif isinstance(line, cst.ImportFrom) and not isinstance(line.names, cst.ImportStar) and line.module:
                module = "." * len(line.relative) + source.code(line.module)
                lines += [f"from {module} import {source.code(alias).rstrip(', ')}" for alias in line.names]
    return lines


def _first(source: Source) -> Statement:
    """The first import but those of `__future__`, else the first statement behind them and the docstring."""
    body = list(source.module.body)
    imports = [each for each in body if _is_import(each) and "__future__" not in source.code(each)]
    if imports:
        return imports[0]
    return next(each for each in body if not _is_import(each) and not _is_text(each))


def _is_standard(code: str) -> bool:
    """Whether a line imports a module of the standard library."""
    words = code.split("#")[0].split()
    return len(words) > 1 and words[0] in ("import", "from") and words[1].partition(".")[0] in sys.stdlib_module_names


def _is_text(statement: cst.CSTNode) -> bool:
    return (
        isinstance(statement, cst.SimpleStatementLine)
        and isinstance(statement.body[0], cst.Expr)
        and isinstance(statement.body[0].value, cst.SimpleString)
    )
