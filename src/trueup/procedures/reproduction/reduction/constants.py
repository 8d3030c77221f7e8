"""A script with the values that its command line and its configuration files give it."""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import libcst as cst
import yaml

from trueup.procedures.reproduction.reduction.source import parsed

TYPES: dict[str, Any] = {"int": int, "float": float, "str": str, "bool": bool}
LOADERS = frozenset({"safe_load", "load", "loads", "full_load"})
PLAIN = (str, int, float, bool, type(None))


def with_arguments(text: str, words: Sequence[str]) -> str | None:
    """The script that needs no `words` on its command line; None where they are not those of one plain argparse."""
    if "parse_args" not in text:
        return text if not words else None
    parser = argparse.ArgumentParser(add_help=False)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            try:
                given = [ast.literal_eval(each) for each in node.args]
                options = {each.arg or "": _option(each.value) for each in node.keywords if each.arg != "help"}
                parser.add_argument(*given, **options)
            except (ValueError, TypeError, KeyError, argparse.ArgumentError):
                return None
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            values = vars(parser.parse_args(list(words)))
    except SystemExit:
        return None
    tree = cst.parse_module(text).visit(_Arguments(values))
    assert isinstance(tree, cst.Module)
    return folded(tree.code)


def _option(node: ast.expr) -> Any:
    return TYPES[node.id] if isinstance(node, ast.Name) else ast.literal_eval(node)


class _Arguments(cst.CSTTransformer):
    """`parse_args()` replaced by its values, without the parser."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__()
        self._values = values

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        if isinstance(original_node.func, cst.Attribute) and original_node.func.attr.value == "parse_args":
            given = ", ".join(f"{name}={literal(value)}" for name, value in self._values.items())
            return cst.parse_expression(f"argparse.Namespace({given})")
        return updated_node

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        code = cst.Module([]).code_for_node(original_node)
        only = original_node.body[0] if original_node.body else None
        made = (isinstance(only, cst.Assign) and ".ArgumentParser(" in code) or "= ArgumentParser(" in code
        if ".add_argument(" in code or made:
            return cst.RemovalSentinel.REMOVE
        return updated_node


def with_files(text: str, files: Mapping[str, str]) -> str:
    """With what it reads from YAML and JSON files of its folder in their places."""
    tree = parsed(text)
    if tree is None:
        return text
    changed = tree.visit(_Files(files))
    assert isinstance(changed, cst.Module)
    return folded(changed.code)


class _Files(cst.CSTTransformer):
    def __init__(self, files: Mapping[str, str]) -> None:
        super().__init__()
        self._files = files

    def leave_With(self, original_node: cst.With, updated_node: cst.With) -> Any:
        """`with open("a.yaml") as f: x = yaml.safe_load(f)` as `x = {...}`."""
        data = self._data(cst.Module([]).code_for_node(original_node.items[0]))
        body = original_node.body.body
        if data is None or len(original_node.items) != 1 or len(body) != 1:
            return updated_node
        line = body[0]
        call = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
        value = getattr(call, "value", None)
        if not isinstance(call, (cst.Assign, cst.Return)) or not (isinstance(value, cst.Call) and _loads(value)):
            return updated_node
        return cst.SimpleStatementLine([call.with_changes(value=cst.parse_expression(literal(data)))])

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        data = self._data(cst.Module([]).code_for_node(original_node)) if _loads(original_node) else None
        return updated_node if data is None else cst.parse_expression(literal(data))

    def _data(self, code: str) -> Any:
        """Of the one file that a piece of code names."""
        named = [path for path in self._files if f'"{path}"' in code or f"'{path}'" in code]
        if len(named) != 1:
            return None
        try:
            text = self._files[named[0]]
            return json.loads(text) if named[0].endswith(".json") else yaml.safe_load(text)
        except (ValueError, yaml.YAMLError):
            return None


def _loads(call: cst.Call) -> bool:
    function = call.func
    return isinstance(function, cst.Attribute) and function.attr.value in LOADERS


def folded(text: str) -> str:
    """With `args.name` and `config["a"]["b"]` as their values, where those are constants of the script."""
    while True:
        tree = cst.parse_module(text)
        known = _constants(text)
        if not known:
            return text
        changed = tree.visit(_Fold(known))
        assert isinstance(changed, cst.Module)
        if changed.code == text:
            return text
        text = changed.code


def _constants(text: str) -> dict[str, Any]:
    """Names bound once in the script, to a dictionary or a namespace of constants."""
    tree = ast.parse(text)
    bound = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    written = [
        ast.unparse(node.value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del))
    ]
    found: dict[str, Any] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
            continue
        name = node.targets[0].id
        if bound.count(name) != 1 or any(target.split("[")[0].split(".")[0] == name for target in written):
            continue
        value = _value(node.value)
        if isinstance(value, dict) and value:
            found[name] = value
    return found


def _value(node: ast.expr) -> Any:
    try:
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "argparse.Namespace":
            return {each.arg: ast.literal_eval(each.value) for each in node.keywords}
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return None


class _Fold(cst.CSTTransformer):
    def __init__(self, known: Mapping[str, Any]) -> None:
        super().__init__()
        self._known = known

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        value = original_node.value
        if isinstance(value, cst.Name):
            return self._folded(value.value, original_node.attr.value, updated_node)
        return updated_node

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> cst.BaseExpression:
        path: list[Any] = []
        node: cst.BaseExpression = original_node
        while isinstance(node, cst.Subscript) and len(node.slice) == 1:
            index = node.slice[0].slice
            if not isinstance(index, cst.Index) or not isinstance(index.value, cst.SimpleString):
                return updated_node
            path.insert(0, index.value.evaluated_value)
            node = node.value
        if not isinstance(node, cst.Name) or node.value not in self._known:
            return updated_node
        value = self._known[node.value]
        for key in path:
            if not isinstance(value, dict) or key not in value:
                return updated_node
            value = value[key]
        return cst.parse_expression(literal(value)) if isinstance(value, (*PLAIN, list)) else updated_node

    def _folded(self, name: str, key: str, node: cst.BaseExpression) -> cst.BaseExpression:
        values = self._known.get(name)
        if not isinstance(values, dict) or not isinstance(values.get(key, ...), (*PLAIN, list)):
            return node
        return cst.parse_expression(literal(values[key]))


def literal(value: Any) -> str:
    """A value of YAML as Python with double quotes."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(name)}: {literal(each)}" for name, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(literal, value)) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
