"""One Python file of the job: its calls and statements by name and line, and what is to be changed of them.

Comments and layout stay, for the file is kept as a concrete syntax tree.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, ParentNodeProvider, PositionProvider, QualifiedNameProvider

Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement
Node = TypeVar("Node", bound=cst.CSTNode)


class SyntaxProblem(ValueError):
    """A file that is no Python of this version."""


class Source:
    """A parsed file. Raises SyntaxProblem when it is no Python."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        try:
            self.wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
        except (cst.ParserSyntaxError, RecursionError) as error:
            raise SyntaxProblem(f"{path} is no Python") from error
        self.module = self.wrapper.module
        self._positions: Mapping[cst.CSTNode, CodeRange] = self.wrapper.resolve(PositionProvider)
        self._parents: Mapping[cst.CSTNode, cst.CSTNode] = self.wrapper.resolve(ParentNodeProvider)
        self._names = self.wrapper.resolve(QualifiedNameProvider)
        self.calls = tuple(node for node in self._positions if isinstance(node, cst.Call))
        self.statements = tuple(
            node for node in self._positions if isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
        )

    def lines(self, node: cst.CSTNode) -> tuple[int, int]:
        """First and last line of a node, from 1."""
        position = self._positions[node]
        return position.start.line, position.end.line

    def nodes(self, kind: type[Node]) -> Iterator[Node]:
        """Every node of one kind, in the order of the file."""
        return (node for node in self._positions if isinstance(node, kind))

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        return self._parents.get(node)

    def names(self, node: cst.CSTNode) -> set[str]:
        """The full names that an expression may stand for: `torch.utils.checkpoint.checkpoint`."""
        found = self._names.get(node, set())
        return {name.name for name in (found() if callable(found) else found)}

    def calls_of(self, *names: str) -> list[cst.Call]:
        """Calls of functions with one of these full names; a name that ends in `.` stands for all below it."""
        return [call for call in self.calls if any(_is_one_of(name, names) for name in self.names(call.func))]

    def calls_of_method(self, name: str) -> list[cst.Call]:
        """Calls of `anything.name(...)`."""
        return [call for call in self.calls if isinstance(call.func, cst.Attribute) and call.func.attr.value == name]

    def statement_at(self, line: int) -> Statement | None:
        """The innermost statement that `line` belongs to."""
        covering = [node for node in self.statements if self.lines(node)[0] <= line <= self.lines(node)[1]]
        return min(covering, key=lambda node: self.lines(node)[1] - self.lines(node)[0], default=None)

    def statement_of(self, node: cst.CSTNode) -> Statement | None:
        """The innermost statement that holds `node`."""
        above: cst.CSTNode | None = node
        while above is not None and not isinstance(above, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            above = self._parents.get(above)
        return above

    def enclosing(self, node: cst.CSTNode) -> list[cst.CSTNode]:
        """Everything that holds `node`, from the inside out."""
        found: list[cst.CSTNode] = []
        above = self._parents.get(node)
        while above is not None:
            found.append(above)
            above = self._parents.get(above)
        return found

    def block_of(self, statement: cst.CSTNode) -> Sequence[cst.CSTNode]:
        """The statements of the block that `statement` is one of; empty where it stands behind a colon."""
        parent = self._parents.get(statement)
        return parent.body if isinstance(parent, (cst.Module, cst.IndentedBlock)) else ()

    def code(self, node: cst.CSTNode) -> str:
        return self.module.code_for_node(node)


class Rewriting:
    """Changes of one file, collected and made at once."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._changes: dict[cst.CSTNode, list[Callable[[cst.CSTNode], cst.CSTNode]]] = {}
        self._before: dict[cst.CSTNode, list[str]] = {}
        self._after: dict[cst.CSTNode, list[str]] = {}
        self._apart: set[cst.CSTNode] = set()
        self._removed: set[cst.CSTNode] = set()

    def change(self, node: Node, change: Callable[[Node], cst.CSTNode]) -> None:
        """Replace `node` by what `change` makes of it once all within it is changed."""
        self._changes.setdefault(node, []).append(change)  # type: ignore[arg-type]

    def put(self, node: cst.CSTNode, new: cst.CSTNode) -> None:
        """Replace `node` by `new`."""
        self.change(node, lambda _: new)

    def insert_before(self, statement: Statement, code: str, apart: bool = False) -> None:
        """Put `code` in front of a statement of a block and of its comments; `apart`: with an empty line between."""
        self._before.setdefault(statement, []).append(code)
        if apart:
            self._apart.add(statement)

    def insert_after(self, statement: Statement, code: str) -> None:
        self._after.setdefault(statement, []).append(code)

    def remove(self, statement: Statement) -> None:
        """Take a statement out; the only one of a block leaves `pass`."""
        self._removed.add(statement)

    def text(self) -> str | None:
        """The file with all changes; None when nothing changes or the result is no Python any more."""
        new = self.source.module.visit(_Rewriter(self)).code
        if new == self.source.text:
            return None
        try:
            ast.parse(new)
        except (SyntaxError, ValueError):
            return None
        return new


class _Rewriter(cst.CSTTransformer):
    def __init__(self, rewriting: Rewriting) -> None:
        super().__init__()
        self._rewriting = rewriting

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNode]:
        rewriting = self._rewriting
        node = super().on_leave(original_node, updated_node)
        for change in rewriting._changes.get(original_node, ()):
            assert isinstance(node, cst.CSTNode)
            node = change(node)
        if not isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            return node
        before = _statements(rewriting._before.get(original_node, ()))
        after = _statements(rewriting._after.get(original_node, ()))
        gone = original_node in rewriting._removed
        if gone and not before and not after:
            alone = len(rewriting.source.block_of(original_node)) <= 1
            return cst.SimpleStatementLine([cst.Pass()]) if alone else cst.RemoveFromParent()
        if before:
            lines = list(node.leading_lines)
            blank = next((i for i, line in enumerate(lines) if line.comment is not None), len(lines))
            before[0] = before[0].with_changes(leading_lines=lines if gone else lines[:blank])
            gap = [cst.EmptyLine(indent=False)] if original_node in rewriting._apart else []
            node = node.with_changes(leading_lines=[*gap, *lines[blank:]])
        if gone:
            return cst.FlattenSentinel([*before, *after])
        return cst.FlattenSentinel([*before, node, *after]) if before or after else node


def _statements(codes: Sequence[str]) -> list[Statement]:
    found: list[Statement] = []
    for code in dict.fromkeys(codes):
        module = cst.parse_module(code)
        body = list(module.body)
        if body and module.header:
            blank = [line.with_changes(indent=line.comment is not None) for line in module.header]
            body[0] = body[0].with_changes(leading_lines=[*blank, *body[0].leading_lines])
        found += body
    return found


def _is_one_of(name: str, names: Sequence[str]) -> bool:
    return any(name.startswith(each) if each.endswith(".") else name == each for each in names)
