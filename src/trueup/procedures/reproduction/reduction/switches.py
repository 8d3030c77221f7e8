"""A switch for each guilty layer in a script, at each place where the script applies it."""

from __future__ import annotations

import libcst as cst
import msgspec

from trueup.procedures.reproduction.reduction.source import parsed

HEADER = "off = sys.argv[2:]  # --without LAYER ..."
BARE = "off = sys.argv[2:]"


class Hints(msgspec.Struct, frozen=True, kw_only=True):
    """By which names a script applies a layer."""

    wraps: frozenset[str] = frozenset()
    """Functions that give back what they were given, changed: without the layer, their first argument."""
    changes: frozenset[str] = frozenset()
    """Functions and methods that change a module in place."""
    calls: frozenset[str] = frozenset()
    """Functions that call another one: without the layer, that one with the arguments."""
    contexts: frozenset[str] = frozenset()
    keywords: dict[str, str] = {}
    """Arguments and keys of dictionaries → their value without the layer."""


LAYERS: dict[str, Hints] = {
    "compile": Hints(
        wraps=frozenset({"compile"}),
        changes=frozenset({"compile"}),
        contexts=frozenset({"_enable"}),
        keywords={
            "torch_compile": "False",
            "torch_compile_backend": "None",
            "torch_compile_mode": "None",
            "compile": "False",
            "use_compile": "False",
        },
    ),
    "sharding": Hints(
        wraps=frozenset({"FSDP", "FullyShardedDataParallel", "DDP", "DistributedDataParallel", "replicate"}),
        changes=frozenset({"fully_shard"}),
        keywords={"fsdp": '""'},
    ),
    "checkpointing": Hints(
        wraps=frozenset({"checkpoint_wrapper"}),
        changes=frozenset({"gradient_checkpointing_enable", "apply_activation_checkpointing"}),
        calls=frozenset({"checkpoint"}),
        keywords={"gradient_checkpointing": "False", "activation_checkpointing": "False"},
    ),
    "adapter": Hints(
        wraps=frozenset({"get_peft_model", "inject_adapter_in_model"}),
        changes=frozenset({"add_adapter"}),
        keywords={"peft_config": "None", "use_lora": "False", "lora": "False"},
    ),
    "precision": Hints(
        changes=frozenset({"half", "bfloat16"}),
        contexts=frozenset({"autocast"}),
        keywords={
            "bf16": "False",
            "fp16": "False",
            "mixed_precision": '"no"',
            "torch_dtype": "torch.float32",
            "dtype": "torch.float32",
        },
    ),
    "attention": Hints(
        contexts=frozenset({"sdpa_kernel"}),
        keywords={"attn_implementation": '"eager"', "_attn_implementation": '"eager"'},
    ),
}
OF_CHECKPOINT = frozenset({"use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug"})
"""Arguments of torch.utils.checkpoint.checkpoint itself."""
HALF = ("float16", "half", '"auto"')
"""How a dtype of low precision ends."""
PLAIN_VALUES = ("False", "None", '""')


def with_switches(text: str, layers: tuple[str, ...]) -> str:
    """The script that leaves out the layers after `--without`."""
    text = _unnested(text, layers)
    for layer in layers:
        tree = parsed(text)
        if tree is None or layer not in LAYERS:
            continue
        changed = tree.visit(_Switch(layer, LAYERS[layer]))
        assert isinstance(changed, cst.Module)
        text = changed.code
    return _with_header(text)


class _Unnest(cst.CSTTransformer):
    """`model = FSDP(Net(), ...)` as `model = Net()` and `model = FSDP(model, ...)`."""

    def __init__(self, wraps: frozenset[str]) -> None:
        super().__init__()
        self._wraps = wraps

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        line = updated_node.body[0] if len(updated_node.body) == 1 else None
        if not isinstance(line, cst.Assign) or len(line.targets) != 1 or not isinstance(line.value, cst.Call):
            return updated_node
        call, target = line.value, line.targets[0].target
        if _name(call) not in self._wraps or not call.args or _is_of(call, "re") or isinstance(target, cst.Tuple):
            return updated_node
        given = _given(call)
        if _code(given) == _code(target) or not isinstance(given, (cst.Name, cst.Call)):
            return updated_node
        first = cst.SimpleStatementLine([line.with_changes(value=given)])
        place = cst.parse_expression(_code(target))
        arguments = [each.with_changes(value=place) if each.value is given else each for each in call.args]
        return cst.FlattenSentinel(
            [first, cst.SimpleStatementLine([line.with_changes(value=call.with_changes(args=arguments))])]
        )


def _unnested(text: str, layers: tuple[str, ...]) -> str:
    wraps = frozenset(name for layer in layers if layer in LAYERS for name in LAYERS[layer].wraps)
    for _ in range(4):
        tree = parsed(text)
        if tree is None:
            return text
        changed = tree.visit(_Unnest(wraps))
        assert isinstance(changed, cst.Module)
        if changed.code == text:
            return text
        text = changed.code
    return text


def _with_header(text: str) -> str:
    """`off` after the imports of the module, where something reads it."""
    tree = parsed(text)
    if tree is None or " off" not in text or BARE in text:
        return text
    last = max((index for index, node in enumerate(tree.body) if _imports(node)), default=-1)
    first = 1 + max(
        (index for index, node in enumerate(tree.body) if "__future__" in tree.code_for_node(node)), default=-1
    )
    body = [*tree.body[: last + 1], cst.parse_statement(BARE), *tree.body[last + 1 :]]
    needed = ["import sys", *(["import contextlib"] if "contextlib.nullcontext" in text else [])]
    known = {tree.code_for_node(node).strip() for node in tree.body}
    body[first:first] = [cst.parse_statement(line) for line in needed if line not in known]
    return tree.with_changes(body=body).code


def _imports(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.SimpleStatementLine) and isinstance(node.body[0], (cst.Import, cst.ImportFrom))


class _Switch(cst.CSTTransformer):
    def __init__(self, layer: str, hints: Hints) -> None:
        super().__init__()
        self._layer = layer
        self._hints = hints
        self._guarded: set[int] = set()
        """Calls whose statement is left out as a whole."""

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> None:
        only = node.body[0] if len(node.body) == 1 else None
        value = getattr(only, "value", None)
        if isinstance(value, cst.Call) and self._is_left_out(only, value):
            self._guarded.add(id(value))

    def _is_left_out(self, line: cst.CSTNode | None, call: cst.Call) -> bool:
        name = _name(call)
        if isinstance(line, cst.Expr):
            return name in self._hints.changes or name in self._hints.wraps
        if not isinstance(line, cst.Assign) or len(line.targets) != 1:
            return False
        target = _code(line.targets[0].target)
        if name in self._hints.wraps:
            return any(_code(argument.value) == target for argument in call.args)
        return name in self._hints.changes and any(
            _code(each) == target for each in (_receiver(call), *(argument.value for argument in call.args)) if each
        )

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement:
        value = getattr(original_node.body[0], "value", None) if original_node.body else None
        if id(value) not in self._guarded:
            return updated_node
        test = cst.parse_expression(f'"{self._layer}" not in off')
        inner = updated_node.with_changes(leading_lines=())
        return cst.If(test=test, body=cst.IndentedBlock([inner]), leading_lines=updated_node.leading_lines)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        name = _name(original_node)
        if id(original_node) in self._guarded or name is None or not updated_node.args:
            return updated_node
        if name in self._hints.calls and isinstance(original_node.func, (cst.Name, cst.Attribute)):
            return self._either(updated_node, _called_directly(updated_node))
        if name in self._hints.wraps and original_node.args[0].keyword is None and not _is_of(original_node, "re"):
            return self._either(updated_node, _code(_given(updated_node)))
        return updated_node

    def leave_WithItem(self, original_node: cst.WithItem, updated_node: cst.WithItem) -> cst.WithItem:
        call = original_node.item
        if not isinstance(call, cst.Call) or _name(call) not in self._hints.contexts:
            return updated_node
        return updated_node.with_changes(item=self._either(updated_node.item, "contextlib.nullcontext()"))

    def leave_Decorator(self, original_node: cst.Decorator, updated_node: cst.Decorator) -> cst.Decorator:
        node = original_node.decorator
        name = _name(node) if isinstance(node, cst.Call) else _last(node)
        if name not in self._hints.wraps:
            return updated_node
        wrapped = self._either(updated_node.decorator, "(lambda function: function)")
        return updated_node.with_changes(decorator=_in_brackets(wrapped))

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        if original_node.keyword is None:
            return updated_node
        return updated_node.with_changes(value=self._value(original_node.keyword.value, updated_node.value))

    def leave_DictElement(self, original_node: cst.DictElement, updated_node: cst.DictElement) -> cst.DictElement:
        key = original_node.key
        name = str(key.evaluated_value) if isinstance(key, cst.SimpleString) else ""
        return updated_node.with_changes(value=self._value(name, updated_node.value))

    def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign:
        name = _last(original_node.targets[0].target) or ""
        plain = isinstance(original_node.value, (cst.Name, cst.SimpleString))
        return updated_node.with_changes(value=self._value(name, updated_node.value)) if plain else updated_node

    def _value(self, name: str, value: cst.BaseExpression) -> cst.BaseExpression:
        without = self._hints.keywords.get(name.lower())
        if without is None or _code(value) in (without, *PLAIN_VALUES):
            return value
        if name.endswith("dtype") and not _code(value).endswith(HALF):
            return value
        if without == "False" and not isinstance(value, (cst.Name, cst.Attribute)):
            return value  # its settings, and not whether it is on
        if _code(value) == "True":
            return cst.parse_expression(f'"{self._layer}" not in off')
        return self._either(value, without)

    def _either(self, value: cst.BaseExpression, without: str) -> cst.BaseExpression:
        without = f"({without})" if " if " in without else without
        found = cst.parse_expression(f'{without} if "{self._layer}" in off else x')
        assert isinstance(found, cst.IfExp)
        return (
            _in_brackets(found.with_changes(orelse=value))
            if isinstance(value, cst.IfExp)
            else found.with_changes(orelse=value)
        )


def _in_brackets(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _code(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node)


def _name(call: cst.Call) -> str | None:
    """Of the function, without what it is an attribute of."""
    return _last(call.func)


def _last(node: cst.CSTNode) -> str | None:
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return node.value if isinstance(node, cst.Name) else None


def _receiver(call: cst.Call) -> cst.BaseExpression | None:
    return call.func.value if isinstance(call.func, cst.Attribute) else None


def _is_of(call: cst.Call, module: str) -> bool:
    receiver = _receiver(call)
    return receiver is not None and _code(receiver) == module


def _given(call: cst.Call) -> cst.BaseExpression:
    """The module that a wrapper is given: PEFT's injection takes it second."""
    second = _name(call) == "inject_adapter_in_model" and len(call.args) > 1
    return call.args[1 if second else 0].value


def _called_directly(call: cst.Call) -> str:
    """`checkpoint(f, x, use_reentrant=False)` as `f(x)`."""
    rest = [
        argument for argument in call.args[1:] if not (argument.keyword and argument.keyword.value in OF_CHECKPOINT)
    ]
    given = ", ".join(_code(argument.with_changes(comma=cst.MaybeSentinel.DEFAULT)).strip() for argument in rest)
    return f"{_code(call.args[0].value)}({given})"
