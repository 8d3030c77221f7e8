"""torch.compile: where it is put, on what, and with which shapes."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from trueup.edits.calls import argument, is_open, with_keyword, without_keyword
from trueup.edits.draft import Draft, Editor, assigned, binds_torch, is_place, is_statement, last_name, literal
from trueup.edits.optimizers import made, model_of
from trueup.edits.python_source import Source, Statement
from trueup.edits.settings import DYNAMO, without
from trueup.edits.values import sites

COMPILE = "torch.compile"
CUDAGRAPHS = {"reduce-overhead": "default", "max-autotune": "max-autotune-no-cudagraphs"}
BUILTIN = frozenset(
    {
        *("Sequential", "Linear", "Embedding", "LayerNorm", "Conv1d", "Conv2d", "RNN", "LSTM", "GRU", "Transformer"),
        *("TransformerEncoder", "TransformerDecoder", "TransformerEncoderLayer", "TransformerDecoderLayer"),
        "MultiheadAttention",
    }
)
"""Classes of torch itself, of which compiling in place compiles nothing."""


class Compiled:
    """A line that compiles a module: `target = torch.compile(module, ...)`, or `module.compile(...)` without target."""

    def __init__(self, source: Source, line: cst.SimpleStatementLine, kind: str | None) -> None:
        self.kind = kind
        """Class of the module."""
        self.source = source
        self.line = line
        self.target: str | None = None
        self.module: cst.BaseExpression | None = None
        self.returned = False
        self.call: cst.Call | None = None
        call = self._call()
        if call is not None and not is_open(call):
            self._read(call)
        if self.module is not None:
            self.call = call

    def _call(self) -> cst.Call | None:
        if len(self.line.body) != 1:
            return None
        small = self.line.body[0]
        pair = assigned(self.line)
        if pair is not None:
            self.target = self.source.code(pair[0])
            value: cst.BaseExpression | None = pair[1]
        elif isinstance(small, cst.Return):
            self.returned = True
            value = small.value
        else:
            value = small.value if isinstance(small, cst.Expr) else None
        return value if isinstance(value, cst.Call) else None

    def _read(self, call: cst.Call) -> None:
        code = self.source.code
        if COMPILE in self.source.names(call.func) and call.args and call.args[0].keyword is None:
            if self.target is None and not self.returned:
                return
            self.module = call.args[0].value
            self.options = ", ".join(code(arg.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for arg in call.args[1:])
        elif isinstance(call.func, cst.Attribute) and call.func.attr.value == "compile" and self.target is None:
            self.module = call.func.value
            self.options = ", ".join(code(arg.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for arg in call.args)

    def parts(self) -> tuple[str, list[str]] | None:
        """How the module is called afterwards, and lines that stand for this one without compiling; None: not clear."""
        if self.module is None:
            return None
        code = self.source.code(self.module)
        if is_place(self.module):
            if self.returned:
                return code, [f"return {code}"]
            return code, [f"{self.target} = {code}"] if self.target not in (None, code) else []
        if self.target is not None:
            return self.target, [f"{self.target} = {code}"]
        return None


def automatic_dynamic_shapes(draft: Draft) -> bool:
    """No `dynamic=False`, and no setting that takes shapes as constants."""
    done = False
    for source in draft.job.sources():
        for call in source.calls:
            if literal(argument(call, "dynamic")) is False and _compiles(source, call):
                draft.of(source).change(call, lambda node: without_keyword(node, "dynamic"))
                done = True
    without(DYNAMO, lambda value: value is False, "automatic_dynamic_shapes", "assume_static_by_default")(draft)
    return done or bool(draft.edits())


def dynamic_by_wrong_default(draft: Draft) -> bool:
    """The variable of `accelerate launch` is taken back in front of the one line that reads it."""
    places = draft.job.applied("Accelerator", "Trainer")
    if len(places) != 1 and len({source.path for _, source, _ in places}) != 1:
        return False
    _, source, line = min(places, key=lambda place: place[1].lines(place[2])[0])
    if not source.block_of(line):
        return False
    draft.require(source, "import os")
    draft.of(source).insert_before(line, 'os.environ.pop("ACCELERATE_DYNAMO_USE_DYNAMIC", None)')
    return True


def in_place(draft: Draft) -> bool:
    """`module.compile(...)` for each `name = torch.compile(module, ...)`."""
    found = _compiled(draft)
    for each in found:
        parts = each.parts()
        if parts is None or (each.target is None and not each.returned) or each.kind in BUILTIN:
            return False
        name, lines = parts
        call = f"{name}.compile({each.options})"
        is_made_here = each.module is not None and not is_place(each.module)
        _replace(draft, each, [*lines, call] if is_made_here else [call, *lines])
    return bool(found)


def by_wrapper(draft: Draft) -> bool:
    """`module = torch.compile(module, ...)` for each `module.compile(...)`."""
    found = _compiled(draft)
    for each in found:
        if each.module is None or each.target is not None or each.returned or not is_place(each.module):
            return False
        source, name = each.source, each.source.code(each.module)
        options = f", {each.options}" if each.options else ""
        loop = next((node for node in source.enclosing(each.line) if isinstance(node, cst.For)), None)
        if loop is not None and source.code(loop.target) == name:
            if not is_place(loop.iter) or each.line not in source.block_of(each.line):
                return False
            items, index = source.code(loop.iter), _free(source, "index", "position", "number")
            _replace(draft, each, [f"{items}[{index}] = torch.compile({name}{options})"])
            draft.of(source).put(loop.target, _pair(index, name))
            draft.of(source).put(loop.iter, cst.parse_expression(f"enumerate({items})"))
        elif _is_parameter(source, each.line, name):
            return False
        else:
            _replace(draft, each, [f"{name} = torch.compile({name}{options})"])
        if not binds_torch(source):
            draft.require(source, "import torch")
    return bool(found)


def per_block(draft: Draft) -> bool:
    """Every block is compiled in place, in front of the first `fully_shard`, instead of the whole model."""
    found, classes = _compiled(draft), draft.job.record.actual.compile.blocks.names
    if len(found) != 1 or not classes or BUILTIN.intersection(classes):
        return False
    each, source = found[0], found[0].source
    parts = each.parts()
    block = source.block_of(each.line)
    if parts is None or not block:
        return False
    name, lines = parts
    shards = _shards_before(draft, each)
    loop = _loop(source, name, classes, each.options)
    if shards is None:
        _replace(draft, each, [*lines, loop] if each.module and not is_place(each.module) else [loop, *lines])
    elif each.module is not None and is_place(each.module):
        draft.of(source).insert_before(shards, loop)
        _replace(draft, each, lines)
    else:
        return False
    return True


def option(name: str, value: str, *without: str) -> Editor:
    """An editor that gives an option to every line that compiles a module, and takes others away."""

    def editor(draft: Draft) -> bool:
        calls = [(each.source, each.call) for each in _compiled(draft) if each.call is not None]
        for source, call in calls:
            if is_open(call):
                return False
            draft.of(source).change(call, lambda node: with_keyword(_without(node, without), name, value))
        return bool(calls)

    return editor


def without_cudagraphs(draft: Draft) -> bool:
    """No mode that records CUDA graphs."""
    found = [site for site in sites(draft.job.sources(), "mode") if literal(site.value) in CUDAGRAPHS]
    for site in found:
        mode = CUDAGRAPHS[str(literal(site.value))]
        draft.of(site.source).put(site.value, cst.SimpleString(f'"{mode}"'))
    return bool(found)


def without_device_hooks(draft: Draft) -> bool:
    """The hooks of accelerate go in front of the first line that compiles."""
    place = made(draft)
    model = model_of(*place) if place is not None else None
    found = _compiled(draft)
    if place is None or model is None or not found or found[0].source is not place[0]:
        return False
    source, line = place
    above = [found[0].line, *source.enclosing(found[0].line)]
    first = next((each for each in source.block_of(line) if each in above), None)
    if first is None or not is_statement(first):
        return False
    draft.require(source, "from accelerate.hooks import remove_hook_from_submodules")
    draft.of(source).insert_before(first, f"remove_hook_from_submodules({model})")
    return True


def regional_by_accelerate(draft: Draft) -> bool:
    calls = [
        (source, call)
        for source in draft.job.sources()
        for call in source.calls
        if last_name(call) == "TorchDynamoPlugin"
    ]
    if len(calls) != 1 or is_open(calls[0][1]):
        return False
    draft.of(calls[0][0]).change(calls[0][1], lambda node: with_keyword(node, "use_regional_compilation", "True"))
    return True


def _compiles(source: Source, call: cst.Call) -> bool:
    """Whether the options of a call are those of torch.compile."""
    handed = bool(call.args) and COMPILE in source.names(call.args[0].value)  # functools.partial(torch.compile, ...)
    return handed or last_name(call) in ("compile", "TorchDynamoPlugin")


def _without(call: cst.Call, keywords: Sequence[str]) -> cst.Call:
    for keyword in keywords:
        call = without_keyword(call, keyword)
    return call


def _compiled(draft: Draft) -> list[Compiled]:
    """The lines of the job at which a module was compiled."""
    return [
        Compiled(source, line, applied.module)
        for applied, source, line in draft.job.applied("torch.compile", "Module.compile")
        if isinstance(line, cst.SimpleStatementLine)
    ]


def _shards_before(draft: Draft, each: Compiled) -> Statement | None:
    """The first statement of the same block that shards the model before it is compiled."""
    block = list(each.source.block_of(each.line))
    for _, source, line in draft.job.applied("fully_shard"):
        if source is not each.source:
            continue
        for statement in block[: block.index(each.line)]:
            if statement is line or statement in source.enclosing(line):
                return statement  # type: ignore[return-value]
    return None


def _loop(source: Source, model: str, classes: Sequence[str], options: str) -> str:
    item = _free(source, "block", "layer", "repeated_block")
    known = _bound(source)
    if all(name in known for name in classes):
        kinds = classes[0] if len(classes) == 1 else f"({', '.join(classes)})"
        test = f"isinstance({item}, {kinds})"
    elif len(classes) == 1:
        test = f'type({item}).__name__ == "{classes[0]}"'
    else:
        test = f"type({item}).__name__ in {tuple(classes)!r}".replace("'", '"')
    return f"for {item} in {model}.modules():\n    if {test}:\n        {item}.compile({options})"


def _bound(source: Source) -> set[str]:
    """Names of classes and imports at the top of the file."""
    found = {node.name.value for node in source.module.body if isinstance(node, cst.ClassDef)}
    for alias in source.nodes(cst.ImportAlias):
        found.add(alias.evaluated_alias or alias.evaluated_name)
    return found


def _free(source: Source, *names: str) -> str:
    """The first of `names` that the file does not use, else the last."""
    used = {node.value for node in source.nodes(cst.Name)}
    return next((name for name in names if name not in used), names[-1])


def _replace(draft: Draft, each: Compiled, lines: Sequence[str]) -> None:
    for code in lines:
        draft.of(each.source).insert_before(each.line, code)
    draft.of(each.source).remove(each.line)


def _pair(index: str, name: str) -> cst.BaseExpression:
    pair = cst.ensure_type(cst.parse_expression(f"({index}, {name})"), cst.Tuple)
    return pair.with_changes(lpar=[], rpar=[])


def _is_parameter(source: Source, line: Statement, name: str) -> bool:
    """Whether a name is given to the function that holds `line`: binding it again changes nothing outside."""
    function = next((node for node in source.enclosing(line) if isinstance(node, cst.FunctionDef)), None)
    return function is not None and any(
        parameter.name.value == name for parameter in (*function.params.params, *function.params.kwonly_params)
    )
