"""The line that makes the optimizer: where it stands, and what it is given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from trueup.edits.calls import argument, is_open, with_keyword
from trueup.edits.draft import Draft, assigned, is_place, last_name
from trueup.edits.python_source import Source, Statement

REPLACING = frozenset(
    {"fully_shard", "FullyShardedDataParallel", "FSDP", "to_empty", "to", "half", "bfloat16", "float", "cuda"}
)
"""Calls that may give a model other parameters."""
GIVING = frozenset({"parameters", "named_parameters"})


def after_wrapping(draft: Draft) -> bool:
    """The optimizer is made behind the last line that shards, casts or fills the model, or gives it new modules."""
    place = made(draft)
    return place is not None and _moved(draft, *place)


def add_missing(draft: Draft) -> bool:
    """A parameter group for what the groups leave out, behind the optimizer."""
    place = made(draft)
    if place is None:
        return False
    source, line = place
    target, model = assigned(line), model_of(source, line) or _model_before(source, line)
    if target is None or not isinstance(target[0], cst.Name) or model is None:
        return False
    if any(_sets_attribute(source, each, model) for each in _behind(source, line)):
        return False
    optimizer = target[0].value
    draft.of(source).insert_after(
        line,
        f'known = {{id(parameter) for group in {optimizer}.param_groups for parameter in group["params"]}}\n'
        f"missing = [p for p in {model}.parameters() if p.requires_grad and id(p) not in known]\n"
        f'{optimizer}.add_param_group({{"params": missing}})',
    )
    return True


def unfreeze_adapters(draft: Draft) -> bool:
    """`is_trainable=True` where adapters are loaded, else their gradients in front of the optimizer."""
    for source in draft.job.sources():
        loads = [call for call in source.calls_of_method("from_pretrained") if _loads_adapters(call)]
        if len(loads) == 1:
            draft.of(source).change(loads[0], lambda node: with_keyword(node, "is_trainable", "True"))
            return True
    place = made(draft)
    model = model_of(*place) if place is not None else None
    is_lora = draft.job.record.requested.get("adapter", {}).get("type") == "LORA"
    if place is None or model is None or not is_lora:
        return False
    source, line = place
    draft.of(source).insert_before(
        line,
        f"for name, parameter in {model}.named_parameters():\n"
        '    if "lora_" in name:\n'
        "        parameter.requires_grad_(True)",
    )
    return True


def made(draft: Draft) -> tuple[Source, Statement] | None:
    """The one line of the job that makes an optimizer and keeps it; None when there are several."""
    places = [(source, line) for _, source, line in draft.job.applied("Optimizer") if assigned(line) is not None]
    return places[0] if len(places) == 1 else None


def model_of(source: Source, line: Statement) -> str | None:
    """The one `model` of `model.parameters()` in a line."""
    first, last = source.lines(line)
    names = {
        source.code(call.func.value)
        for call in source.calls
        if isinstance(call.func, cst.Attribute)
        and call.func.attr.value in GIVING
        and first <= source.lines(call)[0] <= last
        and is_place(call.func.value)
    }
    return names.pop() if len(names) == 1 else None


def _model_before(source: Source, line: Statement) -> str | None:
    """The one model whose parameters the lines of the same block in front of `line` ask for."""
    block = list(source.block_of(line))
    names = {model_of(source, each) for each in block[: block.index(line)]} if line in block else set()  # type: ignore[arg-type]
    names.discard(None)
    return names.pop() if len(names) == 1 else None


def _moved(draft: Draft, source: Source, line: Statement) -> bool:
    """Move `line` behind what gives the model other parameters, if the optimizer is not used before that."""
    target, model = assigned(line), model_of(source, line)
    if target is None or model is None or not isinstance(target[0], cst.Name):
        return False
    between: list[Statement] = []
    for statement in _behind(source, line):
        if target[0].value in _names(statement):
            break
        between.append(statement)
    if not any(_replaces(source, each, model) for each in between):
        return False
    last = max(i for i, each in enumerate(between) if _touches(each, model) or _replaces(source, each, model))
    taken = set(_names(line)) - {model.partition(".")[0]}
    if taken & {name for each in between[: last + 1] for name in _assigned_names(each)}:
        return False
    code = source.code(line.with_changes(leading_lines=[])).rstrip("\n")
    draft.of(source).remove(line)
    draft.of(source).insert_after(between[last], code)
    return True


def _behind(source: Source, line: Statement) -> Sequence[Statement]:
    block = list(source.block_of(line))
    return block[block.index(line) + 1 :] if line in block else []  # type: ignore[return-value]


def _replaces(source: Source, statement: Statement, model: str) -> bool:
    """Whether a statement may give the model other parameters."""
    calls = any(last_name(call) in REPLACING for call in _calls(source, statement))
    return (calls and _touches(statement, model)) or _sets_attribute(source, statement, model)


def _touches(statement: Statement, model: str) -> bool:
    """Whether a statement goes through the model: `for block in model.blocks:`, `model.init()`; training it is none."""
    names = set(_names(statement))
    return model.partition(".")[0] in names and "backward" not in names


def _loads_adapters(call: cst.Call) -> bool:
    """`PeftModel.from_pretrained(...)` that leaves open whether they are trained."""
    owner = call.func.value if isinstance(call.func, cst.Attribute) else call.func
    return last_name(owner) == "PeftModel" and not is_open(call) and argument(call, "is_trainable") is None


def _sets_attribute(source: Source, statement: Statement, model: str) -> bool:
    pair = assigned(statement)
    return pair is not None and source.code(pair[0]).startswith(f"{model}.")


def _calls(source: Source, statement: Statement) -> Iterator[cst.Call]:
    first, last = source.lines(statement)
    return (call for call in source.calls if first <= source.lines(call)[0] <= last)


class _NameCollector(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.assigned: list[str] = []

    def visit_Name(self, node: cst.Name) -> None:
        self.names.append(node.value)

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        if isinstance(node.target, cst.Name):
            self.assigned.append(node.target.value)


def _names(statement: cst.CSTNode) -> list[str]:
    collector = _NameCollector()
    statement.visit(collector)
    return collector.names


def _assigned_names(statement: cst.CSTNode) -> list[str]:
    collector = _NameCollector()
    statement.visit(collector)
    return collector.assigned
