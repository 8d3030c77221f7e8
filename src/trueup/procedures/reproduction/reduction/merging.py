"""One file of a script and the modules of its folder that it imports."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

import libcst as cst

from trueup.procedures.reproduction.imports import in_sections
from trueup.procedures.reproduction.reduction.source import names, parsed

LIMIT = 20
"""Modules at most."""


def merged(script: str, files: Mapping[str, str]) -> str | None:
    """The text; None where two modules give different things one name, or one of them cannot be read."""
    done: dict[str, list[str]] = {}
    if not _gather(script, files, done, []):
        return None
    imports: list[str] = []
    lines: list[str] = []
    made: set[str] = set()
    for path, pieces in done.items():
        for piece in pieces:
            bound, _ = names(piece)
            if piece.startswith(("import ", "from ")):
                imports.append(" ".join(piece.split()).replace("( ", "").replace("(", "").replace(")", "").rstrip(", "))
            else:
                lines.append(piece)
            if path != script and not piece.startswith(("import ", "from ")):
                if bound & made:
                    return None
                made |= bound
    return "\n".join([*in_sections(imports), "", *lines, ""])


def _gather(path: str, files: Mapping[str, str], done: dict[str, list[str]], open_ones: list[str]) -> bool:
    """Put the statements of `path` into `done`, those of the modules that it imports before them."""
    if path in done or path in open_ones:
        return True
    tree = parsed(files[path])
    if tree is None or len(done) > LIMIT:
        return False
    pieces: list[str] = []
    plain: set[str] = set()
    for node in tree.body:
        local = _local(node, path, files)
        if local is not None:
            module, whole = local
            if not _gather(module, files, done, [*open_ones, path]):
                return False
            if whole is not None:
                plain.add(whole)
            continue
        if open_ones and _is_main(node):
            continue
        bare = _without_prefix(node.with_changes(leading_lines=()), plain)
        pieces.append(tree.code_for_node(bare).rstrip())
    done[path] = pieces
    return True


def _local(node: cst.BaseStatement, path: str, files: Mapping[str, str]) -> tuple[str, str | None] | None:
    """(file that a line imports, name by which its module is used); None for another line."""
    if not isinstance(node, cst.SimpleStatementLine) or len(node.body) != 1:
        return None
    line = node.body[0]
    folder = posixpath.dirname(path)
    if isinstance(line, cst.ImportFrom) and not isinstance(line.names, cst.ImportStar):
        if any(alias.asname for alias in line.names):
            return None
        dots = len(line.relative)
        for _ in range(dots - 1):
            folder = posixpath.dirname(folder)
        name = "" if line.module is None else cst.Module([]).code_for_node(line.module)
        found = _file(name, folder, files)
        return None if found is None else (found, None)
    if isinstance(line, cst.Import) and len(line.names) == 1:
        alias = line.names[0]
        found = _file(alias.evaluated_name, folder, files)
        used = alias.evaluated_alias or alias.evaluated_name
        return None if found is None or "." in used else (found, used)
    return None


def _file(module: str, folder: str, files: Mapping[str, str]) -> str | None:
    below = module.replace(".", "/")
    for place in dict.fromkeys((folder, "")):
        for name in (f"{below}.py", f"{below}/__init__.py"):
            path = posixpath.join(place, name) if place else name
            if path in files:
                return path
    return None


def _is_main(node: cst.BaseStatement) -> bool:
    return isinstance(node, cst.If) and "__name__" in cst.Module([]).code_for_node(node.test)


class _Unprefixed(cst.CSTTransformer):
    def __init__(self, modules: set[str]) -> None:
        super().__init__()
        self._modules = modules

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        value = original_node.value
        return updated_node.attr if isinstance(value, cst.Name) and value.value in self._modules else updated_node


def _without_prefix(node: cst.BaseStatement, modules: set[str]) -> cst.BaseStatement:
    """`module.name` as `name`, for modules that are merged."""
    if not modules:
        return node
    result = node.visit(_Unprefixed(modules))
    assert isinstance(result, cst.BaseStatement)
    return result
