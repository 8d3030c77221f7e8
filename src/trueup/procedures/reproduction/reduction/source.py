"""A script as a syntax tree, its statements, and the names that they make and need."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence

import libcst as cst
import msgspec

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Statement(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One line, a compound statement with all that is in it, or a keyword argument."""

    node: cst.BaseStatement | cst.Arg
    inside: tuple[cst.CSTNode, ...]
    """The statements around it, the outermost first."""
    makes: frozenset[str]
    """Names that it binds in its own scope."""
    needs: frozenset[str]
    """Names that it reads."""
    own: frozenset[str]
    """Those that its head, or its line outside of keyword arguments, reads."""


def statements(tree: cst.Module) -> list[Statement]:
    """All statements, those within others after them."""
    return list(_statements(tree, tree, ()))


def _statements(tree: cst.Module, holder: cst.CSTNode, inside: tuple[cst.CSTNode, ...]) -> Iterator[Statement]:
    for node in holder.children:
        if isinstance(node, cst.BaseStatement):
            makes, needs = names(tree.code_for_node(node))
            yield Statement(node=node, inside=inside, makes=makes, needs=needs, own=_of_head(tree, node, needs))
            yield from _statements(tree, node, (*inside, node))
        else:
            yield from _statements(tree, node, inside)


def _of_head(tree: cst.Module, node: cst.BaseStatement, needs: frozenset[str]) -> frozenset[str]:
    """What a compound statement reads before its body; what a line reads."""
    if isinstance(node, cst.SimpleStatementLine):
        return needs
    if not isinstance(node, (cst.ClassDef, cst.FunctionDef, cst.For, cst.While, cst.If, cst.With)):
        return frozenset()
    changes: dict[str, object] = {"body": cst.SimpleStatementSuite([cst.Pass()]), "leading_lines": ()}
    if isinstance(node, (cst.For, cst.While, cst.If)):
        changes["orelse"] = None
    return names(tree.code_for_node(node.with_changes(**changes)))[1]


def with_arguments(tree: cst.Module, every: Sequence[Statement]) -> list[Statement]:
    """The statements, and after each line its keyword arguments, but for those of arguments."""
    found: list[Statement] = []
    for each in every:
        given = _Keywords()
        if isinstance(each.node, cst.SimpleStatementLine):
            each.node.visit(given)
        if not given.found:
            found.append(each)
            continue
        line = each.node.visit(_Edits(given.found, {}))
        bare = cst.Module([line]).code if isinstance(line, cst.SimpleStatementLine) else ""
        found.append(msgspec.structs.replace(each, own=names(bare)[1]))
        for argument in given.found:
            needs = names(tree.code_for_node(argument.value))[1]
            around = (*each.inside, each.node)
            found.append(Statement(node=argument, inside=around, makes=frozenset(), needs=needs, own=needs))
    return found


class _Keywords(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[cst.Arg] = []

    def visit_Arg(self, node: cst.Arg) -> bool:
        if node.keyword is not None:
            self.found.append(node)
        return node.keyword is None


def names(code: str) -> tuple[frozenset[str], frozenset[str]]:
    """(names bound, names read) by a piece of code; both empty for one that cannot stand alone."""
    try:
        tree = ast.parse(textwrap.dedent(code.strip("\n")))
    except SyntaxError:
        return frozenset(), frozenset()
    return frozenset(_bound(tree)), frozenset(_read(tree))


def _bound(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield child.name
        elif isinstance(child, ast.alias):
            yield (child.asname or child.name).partition(".")[0]
        elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            yield child.id
        if not isinstance(child, (*FUNCTIONS, ast.ClassDef)):
            yield from _bound(child)


def _read(node: ast.AST) -> Iterator[str]:
    for child in ast.walk(node):
        if isinstance(child, ast.Name) and isinstance(child.ctx, (ast.Load, ast.Del)):
            yield child.id
        elif isinstance(child, ast.AugAssign) and isinstance(child.target, ast.Name):
            yield child.target.id


def parameters(code: str) -> frozenset[str]:
    """Names of all parameters of functions in a script: they are given from outside."""
    return frozenset(each.arg for each in ast.walk(ast.parse(code)) if isinstance(each, ast.arg))


class _Edits(cst.CSTTransformer):
    def __init__(self, gone: Collection[cst.CSTNode], instead: Mapping[cst.CSTNode, cst.CSTNode]) -> None:
        super().__init__()
        self._gone = {id(node) for node in gone}
        self._instead = {id(node): other for node, other in instead.items()}

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNode]:
        if id(original_node) in self._gone:
            return cst.RemovalSentinel.REMOVE
        if id(original_node) in self._instead:
            return self._instead[id(original_node)]
        return super().on_leave(original_node, updated_node)


def edited(
    tree: cst.Module, gone: Collection[cst.CSTNode] = (), instead: Mapping[cst.CSTNode, cst.CSTNode] | None = None
) -> cst.Module:
    """The tree without some nodes, and with others in the place of some."""
    result = tree.visit(_Edits(gone, instead or {}))
    assert isinstance(result, cst.Module)
    return result


def parsed(text: str) -> cst.Module | None:
    """The tree of a text; None for one that is no Python."""
    try:
        return cst.parse_module(text)
    except (cst.ParserSyntaxError, RecursionError):
        return None
