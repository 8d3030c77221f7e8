"""A script without what no run needs: comments, docstrings, unused imports and definitions, spread-out calls."""

from __future__ import annotations

import ast

import libcst as cst

from trueup.procedures.reproduction.imports import in_sections
from trueup.procedures.reproduction.reduction.parameters import without_unread
from trueup.procedures.reproduction.reduction.source import Statement, edited, statements

WIDTH = 110
"""Of a line, up to which a call is written in one."""
STARTS = ("def ", "async def ", "class ", "@")
CONTINUES = (")", "]", "}", "else", "elif", "except", "finally")
PURE = (cst.Import, cst.ImportFrom)


def tidied(text: str) -> str:
    """All of it."""
    tree = cst.parse_module(text)
    plain = tree.visit(_Plain())
    assert isinstance(plain, cst.Module)
    joined = plain.visit(_Joined(plain))
    assert isinstance(joined, cst.Module)
    return spaced(_ordered(_unread_loops(_settled(joined.code))))


def _settled(text: str) -> str:
    while True:
        after = without_unused(without_unread(without_unused(text)))
        if after == text:
            return text
        text = after


def _ordered(text: str) -> str:
    """With all imports of the module at its top."""
    tree = cst.parse_module(text)
    imports = [node for node in tree.body if _is_import(node)]
    lines = [" ".join(tree.code_for_node(node).replace("(", " ").replace(")", " ").split()) for node in imports]
    rest = tree.with_changes(body=[node for node in tree.body if not _is_import(node)]).code
    return "\n".join([*in_sections(line.rstrip(",") for line in lines), rest])


def _is_import(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.SimpleStatementLine) and isinstance(node.body[0], PURE)


def _unread_loops(text: str) -> str:
    """`for step in ...` as `for _ in ...` where nothing reads `step`."""
    tree = cst.parse_module(text)
    every = statements(tree)
    read = {name for each in every for name in each.needs}
    targets: list[cst.Name] = []
    for each in every:
        if isinstance(each.node, cst.For):
            target = each.node.target
            parts = [part.value for part in target.elements] if isinstance(target, cst.Tuple) else [target]
            targets += [part for part in parts if isinstance(part, cst.Name) and part.value not in read]
    return edited(tree, instead={target: cst.Name("_") for target in targets}).code


class _Plain(cst.CSTTransformer):
    """Without comments, blank lines and docstrings."""

    def leave_EmptyLine(
        self, original_node: cst.EmptyLine, updated_node: cst.EmptyLine
    ) -> cst.EmptyLine | cst.RemovalSentinel:
        return cst.RemovalSentinel.REMOVE

    def leave_TrailingWhitespace(
        self, original_node: cst.TrailingWhitespace, updated_node: cst.TrailingWhitespace
    ) -> cst.TrailingWhitespace:
        return updated_node.with_changes(comment=None, whitespace=cst.SimpleWhitespace(""))

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        only = updated_node.body[0] if len(updated_node.body) == 1 else None
        if isinstance(only, cst.Expr) and isinstance(only.value, (cst.SimpleString, cst.ConcatenatedString)):
            return cst.RemovalSentinel.REMOVE
        return updated_node


class _Joined(cst.CSTTransformer):
    """Calls and literals in one line where they fit."""

    def __init__(self, tree: cst.Module) -> None:
        super().__init__()
        self._tree = tree

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        if "\n" not in self._tree.code_for_node(original_node):
            last = updated_node.args[-1:]
            rest = [each.with_changes(comma=_comma(True), whitespace_after_arg=_NONE) for each in last]
            return updated_node.with_changes(args=[*updated_node.args[:-1], *rest])
        arguments = [
            argument.with_changes(comma=_comma(last=argument is updated_node.args[-1]), whitespace_after_arg=_NONE)
            for argument in updated_node.args
        ]
        joined = updated_node.with_changes(args=arguments, whitespace_before_args=_NONE)
        return joined if self._fits(joined) else updated_node

    def _fits(self, node: cst.CSTNode) -> bool:
        code = self._tree.code_for_node(node)
        return "\n" not in code and len(code) <= WIDTH - 20


_NONE = cst.SimpleWhitespace("")


def _comma(last: bool) -> cst.Comma | cst.MaybeSentinel:
    return cst.MaybeSentinel.DEFAULT if last else cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def without_unused(text: str) -> str:
    """Without imports, functions and classes of the module that nothing reads, and without what nothing reads then."""
    while True:
        tree = cst.parse_module(text)
        top = [each for each in statements(tree) if not each.inside]
        gone: list[cst.CSTNode] = []
        instead: dict[cst.CSTNode, cst.CSTNode] = {}
        for each in top:
            read = {name for other in top if other is not each for name in other.needs}
            if isinstance(each.node, (cst.FunctionDef, cst.ClassDef)):
                registered = bool(each.node.decorators)  # a decorator may keep it somewhere
                gone += [] if registered or each.makes & read else [each.node]
            elif isinstance(each.node, cst.SimpleStatementLine) and len(each.node.body) == 1:
                line = each.node.body[0]
                if isinstance(line, PURE) and not isinstance(line.names, cst.ImportStar):
                    _without_unused_names(line, read, each.node, gone, instead)
        gone += _idle(every := statements(tree), tree)
        everything = {name for each in every for name in each.needs}
        gone += [each.node for each in every if _is_constant(each, tree) and not each.makes & everything]
        shorter = edited(tree, gone, instead).code
        if shorter == text:
            return text
        text = shorter


def _idle(every: list[Statement], tree: cst.Module) -> list[cst.CSTNode]:
    """Tests of which nothing comes, and calls of functions that do nothing."""
    empty = [each.node for each in every if isinstance(each.node, cst.If) and _does_nothing(each.node, tree)]
    functions = {
        each.node.name.value
        for each in every
        if isinstance(each.node, cst.FunctionDef) and not each.inside and not each.node.decorators
        if _is_empty(each.node.body, tree)
    }
    calls = [
        each.node
        for each in every
        if isinstance(each.node, cst.SimpleStatementLine)
        and isinstance(line := each.node.body[0], cst.Expr)
        and isinstance(line.value, cst.Call)
        and isinstance(line.value.func, cst.Name)
        and line.value.func.value in functions
    ]
    return [*empty, *calls]


def _does_nothing(test: cst.If, tree: cst.Module) -> bool:
    return test.orelse is None and _is_empty(test.body, tree)


def _is_empty(body: cst.BaseSuite, tree: cst.Module) -> bool:
    return tree.code_for_node(body).split() in ([":", "pass"], ["pass"], [":"], [])


def _is_constant(statement: Statement, tree: cst.Module) -> bool:
    """Whether it gives one name a literal, or a namespace of literals; not in a class, whose names others read."""
    if not isinstance(statement.node, cst.SimpleStatementLine) or len(statement.makes) != 1:
        return False
    if any(isinstance(around, cst.ClassDef) for around in statement.inside):
        return False
    line = statement.node.body[0]
    if not isinstance(line, cst.Assign) or not isinstance(line.targets[0].target, cst.Name):
        return False
    value = ast.parse(tree.code_for_node(line.value).strip(), mode="eval").body
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "argparse.Namespace":
        return True
    try:
        ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError):
        return False
    return True


def _without_unused_names(
    line: cst.Import | cst.ImportFrom,
    read: set[str],
    statement: cst.CSTNode,
    gone: list[cst.CSTNode],
    instead: dict[cst.CSTNode, cst.CSTNode],
) -> None:
    aliases = [alias for alias in line.names if isinstance(alias, cst.ImportAlias)]  # type: ignore[union-attr]
    module = line.module if isinstance(line, cst.ImportFrom) else None
    if module is not None and isinstance(module, cst.Name) and module.value == "__future__":
        return
    used = [alias for alias in aliases if _bound(alias) in read]
    if not used:
        gone.append(statement)
    elif len(used) < len(aliases):
        used[-1] = used[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        instead[line] = line.with_changes(names=used)


def _bound(alias: cst.ImportAlias) -> str:
    if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
        return alias.asname.name.value
    return alias.evaluated_name.partition(".")[0]


def spaced(text: str) -> str:
    """With blank lines as ruff puts them: around definitions, and after the imports."""
    result = _spaced(text)
    try:
        same = ast.dump(ast.parse(result)) == ast.dump(ast.parse(text))
    except SyntaxError:
        same = False
    return result if same else text  # a text of several lines may hold blank ones


def _spaced(text: str) -> str:
    lines: list[str] = []
    for line in text.splitlines():
        if line.strip():
            lines += [""] * (_gap(lines, line) if lines else 0)
            lines.append(line)
    return "\n".join(lines) + "\n"


def _gap(lines: list[str], line: str) -> int:
    """Blank lines between `lines` and the next one."""
    before = lines[-1]
    decorated = before.lstrip().startswith("@")
    if line.startswith(STARTS):
        return 0 if decorated else 2
    if not line[0].isspace() and not line.startswith(CONTINUES) and _in_definition(lines):
        return 2
    if not line[0].isspace() and _imports(before):
        return int(not _imports(line) or in_sections([before, line])[1] == "")
    if line.lstrip().startswith(("def ", "@")) and not before.lstrip().startswith("class "):
        return 0 if decorated else 1
    return 0


def _imports(line: str) -> bool:
    return line.startswith(("import ", "from "))


def _in_definition(lines: list[str]) -> bool:
    """Whether the last line is in a function or a class."""
    head = next((line for line in reversed(lines) if line and not line[0].isspace()), "")
    return head.startswith(("def ", "class "))
