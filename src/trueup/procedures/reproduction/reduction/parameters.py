"""Functions without the parameters that they do not read."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from trueup.procedures.reproduction.reduction.source import edited, names, parsed


def without_unread(text: str) -> str:
    """The text without them, and without what is given for them; functions that are not only called stay."""
    while (tree := parsed(text)) is not None:
        found = next((each for node in tree.body if (each := _unread(node, tree)) is not None), None)
        if found is None:
            return text
        function, index = found
        calls = _Calls(function.name.value)
        tree.visit(calls)
        parameters = [each for number, each in enumerate(function.params.params) if number != index]
        fits = calls.others == 1 and all(_is_plain(call, index) for call in calls.found)
        if not fits:
            return text
        instead: dict[cst.CSTNode, cst.CSTNode] = {
            call: call.with_changes(args=_without(call.args, index)) for call in calls.found
        }
        last = [parameters[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)] if parameters else []
        instead[function.params] = function.params.with_changes(params=[*parameters[:-1], *last])
        text = edited(tree, (), instead).code
    return text


def _unread(node: cst.CSTNode, tree: cst.Module) -> tuple[cst.FunctionDef, int] | None:
    """The first parameter of a function of the module that its body does not read."""
    if not isinstance(node, cst.FunctionDef) or node.decorators or node.params.star_kwarg is not None:
        return None
    if node.params.kwonly_params or not isinstance(node.params.star_arg, cst.MaybeSentinel):
        return None
    _, read = names("def f():" + tree.code_for_node(node.body).removeprefix(":"))
    for index, parameter in enumerate(node.params.params):
        if parameter.name.value not in read:
            return node, index
    return None


class _Calls(cst.CSTVisitor):
    """Calls of a function by its name, and how often the name stands in another place."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.found: list[cst.Call] = []
        self.others = 0
        self._name = name

    def visit_Call(self, node: cst.Call) -> None:
        if isinstance(node.func, cst.Name) and node.func.value == self._name:
            self.found.append(node)
            self.others -= 1

    def visit_Name(self, node: cst.Name) -> None:
        self.others += node.value == self._name


def _is_plain(call: cst.Call, index: int) -> bool:
    """Whether the argument is given by its place, and none before it by a star; what it calls is not needed."""
    before = call.args[: index + 1]
    return len(before) > index and not any(each.star or each.keyword for each in before)


def _without(arguments: Sequence[cst.Arg], index: int) -> list[cst.Arg]:
    rest = [each for number, each in enumerate(arguments) if number != index]
    return [*rest[:-1], *(each.with_changes(comma=cst.MaybeSentinel.DEFAULT) for each in rest[-1:])]
