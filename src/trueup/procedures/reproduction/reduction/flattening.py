"""A script whose steps stand in the module: `main()` and the test of `__name__` in the place of their bodies."""

from __future__ import annotations

import libcst as cst

from trueup.procedures.reproduction.reduction.source import parsed

NOT_OUTSIDE = ("return", "yield", "nonlocal", "global")


def flattened(text: str) -> str:
    """The text; unchanged where something else stands in the way."""
    for _ in range(3):
        tree = parsed(text)
        if tree is None:
            return text
        after = _inlined(_unguarded(tree)).code
        if after == text:
            return text
        text = after
    return text


def _unguarded(tree: cst.Module) -> cst.Module:
    body: list[cst.BaseStatement] = []
    for node in tree.body:
        is_main = isinstance(node, cst.If) and "__name__" in tree.code_for_node(node.test) and node.orelse is None
        if is_main and isinstance(node, cst.If) and isinstance(node.body, cst.IndentedBlock):
            body += node.body.body
        else:
            body.append(node)
    return tree.with_changes(body=body)


def _inlined(tree: cst.Module) -> cst.Module:
    """A function without parameters that is called once, as a statement of the module."""
    functions = {
        node.name.value: node
        for node in tree.body
        if isinstance(node, cst.FunctionDef) and not tree.code_for_node(node.params).strip() and not node.decorators
    }
    for index, node in enumerate(tree.body):
        name = tree.code_for_node(node).strip().removesuffix("()")
        function = functions.get(name)
        if function is None or node is function or not isinstance(function.body, cst.IndentedBlock):
            continue
        words = tree.code_for_node(function.body).split()
        if tree.code.count(f"{name}(") != 2 or any(word in words for word in NOT_OUTSIDE):
            continue
        rest = [each for each in tree.body if each is not function and each is not node]
        before = [each for each in tree.body[:index] if each is not function]
        return tree.with_changes(body=[*before, *function.body.body, *rest[len(before) :]])
    return tree
