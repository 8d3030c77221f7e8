"""Small numbers for the large ones of a script, by the names that they are given to."""

from __future__ import annotations

import re
from collections.abc import Mapping

import libcst as cst

from trueup.procedures.reproduction.reduction.source import parsed

TINY: tuple[tuple[re.Pattern[str], int], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), value)
    for pattern, value in (
        (r"vocab", 64),
        (r"intermediate|ffn|mlp_dim|dim_feedforward|hidden_dim", 64),
        (r"kv_heads|key_value_heads|heads|n_head", 2),
        (r"layers|depth|n_layer|num_blocks|n_blocks", 2),
        (r"hidden|embed|d_model|width|^dim$|n_embd", 32),
        (r"seq|length|block_size|max_len|position|context", 32),
        (r"batch", 2),
        (r"steps|iters|epochs", 8),
        (r"samples|examples|rows|dataset_size", 32),
        (r"workers", 0),
    )
)
"""What a name is about → the number with which a model or a job of it is small."""
VOCABULARY = re.compile(r"vocab\w*[\"']?\s*(?::\s*int\s*)?[=:]\s*(\d+)")
"""A number that other lines may repeat, since token ids must be below it."""
KEPT = re.compile(r"accumulation|warmup|logging|seed|eps", re.IGNORECASE)


COUNTS = re.compile(r"layers|depth|n_layer|num_blocks|n_blocks|batch|steps|iters|epochs|workers", re.IGNORECASE)
"""What may be few whatever the widths are."""


def small(text: str, only: re.Pattern[str] | None = None) -> str:
    """The script with small numbers, of all names or `only` of some; it may not run."""
    tree = parsed(text)
    if tree is None:
        return text
    vocabulary = {int(found) for found in VOCABULARY.findall(text)} if only is None else set()
    changed = tree.visit(_Small(vocabulary, _parameters(tree), only))
    assert isinstance(changed, cst.Module)
    return changed.code


class _Small(cst.CSTTransformer):
    def __init__(self, vocabulary: set[int], parameters: Mapping[str, list[str]], only: re.Pattern[str] | None) -> None:
        super().__init__()
        self._vocabulary = vocabulary
        self._parameters = parameters
        self._only = only

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        """Positional arguments of what the script defines."""
        function = original_node.func
        names = self._parameters.get(function.value, []) if isinstance(function, cst.Name) else []
        arguments = [
            argument.with_changes(value=self._less(name, argument.value))
            if argument.keyword is None and not argument.star
            else argument
            for name, argument in zip(names, updated_node.args, strict=False)
        ]
        return updated_node.with_changes(args=[*arguments, *updated_node.args[len(arguments) :]])

    def _less(self, name: str, value: cst.BaseExpression) -> cst.BaseExpression:
        return _less(name, value) if self._only is None or self._only.search(name) else value

    def leave_Integer(self, original_node: cst.Integer, updated_node: cst.Integer) -> cst.Integer:
        value = original_node.evaluated_value
        return cst.Integer("64") if value in self._vocabulary and value > 64 else updated_node

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        keyword = original_node.keyword
        return (
            updated_node.with_changes(value=self._less(keyword.value, updated_node.value)) if keyword else updated_node
        )

    def leave_Param(self, original_node: cst.Param, updated_node: cst.Param) -> cst.Param:
        default = updated_node.default
        name = original_node.name.value
        return updated_node.with_changes(default=self._less(name, default)) if default is not None else updated_node

    def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign:
        target = original_node.targets[0].target
        name = target.value if isinstance(target, cst.Name) else ""
        return updated_node.with_changes(value=self._less(name, updated_node.value))

    def leave_AnnAssign(self, original_node: cst.AnnAssign, updated_node: cst.AnnAssign) -> cst.AnnAssign:
        target, value = original_node.target, updated_node.value
        name = target.value if isinstance(target, cst.Name) else ""
        return updated_node.with_changes(value=self._less(name, value)) if value is not None else updated_node

    def leave_DictElement(self, original_node: cst.DictElement, updated_node: cst.DictElement) -> cst.DictElement:
        key = original_node.key
        name = str(key.evaluated_value) if isinstance(key, cst.SimpleString) else ""
        return updated_node.with_changes(value=self._less(name, updated_node.value))


def _parameters(tree: cst.Module) -> dict[str, list[str]]:
    """Function or class of the script → its parameters, in their order, without `self`."""
    found: dict[str, list[str]] = {}
    for node in tree.body:
        if isinstance(node, cst.FunctionDef):
            found[node.name.value] = [each.name.value for each in node.params.params]
        elif isinstance(node, cst.ClassDef):
            for method in node.body.body:
                if isinstance(method, cst.FunctionDef) and method.name.value == "__init__":
                    found[node.name.value] = [each.name.value for each in method.params.params[1:]]
    return found


def _less(name: str, value: cst.BaseExpression) -> cst.BaseExpression:
    if not isinstance(value, cst.Integer) or KEPT.search(name):
        return value
    tiny = next((tiny for pattern, tiny in TINY if pattern.search(name)), None)
    return cst.Integer(str(tiny)) if tiny is not None and tiny < value.evaluated_value else value
