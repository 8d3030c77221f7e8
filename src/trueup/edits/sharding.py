"""Data parallelism and sharding: options of the wrappers, and what is wrapped."""

from __future__ import annotations

import libcst as cst

from trueup.edits.calls import argument, is_open, with_keyword
from trueup.edits.draft import Draft, is_place, last_name, literal
from trueup.edits.optimizers import made, model_of
from trueup.edits.python_source import Source

DDP = ("torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.distributed.DistributedDataParallel")
FSDP1 = (
    "torch.distributed.fsdp.FullyShardedDataParallel",
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel",
)
LOADERS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
SHARD = ("torch.distributed.fsdp.fully_shard", "torch.distributed._composable.fsdp.fully_shard")


def find_unused_parameters(draft: Draft) -> bool:
    return _option(draft, DDP, "find_unused_parameters", "True")


def unused_by_accelerate(draft: Draft) -> bool:
    """The option through the handlers of the one Accelerator."""
    calls = [
        (source, call) for source in draft.job.sources() for call in source.calls if last_name(call) == "Accelerator"
    ]
    if len(calls) != 1 or is_open(calls[0][1]) or argument(calls[0][1], "kwargs_handlers") is not None:
        return False
    source, call = calls[0]
    handler = "[DistributedDataParallelKwargs(find_unused_parameters=True)]"
    draft.require(source, "from accelerate import DistributedDataParallelKwargs")
    draft.of(source).change(call, lambda node: with_keyword(node, "kwargs_handlers", handler))
    return True


def shard_root(draft: Draft) -> bool:
    """`fully_shard(model)` in front of the optimizer, behind its blocks."""
    place, roots = made(draft), _calls(draft, SHARD)
    model = model_of(*place) if place is not None else None
    if place is None or model is None or not roots or any(source is not place[0] for source, _ in roots):
        return False
    source, line = place
    if any(call.args and source.code(call.args[0].value) == model for _, call in roots):
        return False
    draft.of(source).insert_before(line, f"{source.code(roots[0][1].func)}({model})")
    return True


def use_orig_params(draft: Draft) -> bool:
    """`use_orig_params=True` for FSDP1, in its call or accelerate's plugin."""
    return _option(draft, FSDP1, "use_orig_params", "True") or _plugin(draft, "use_orig_params", "True")


def wrap_blocks(draft: Draft) -> bool:
    """Each block a unit of its own, for FSDP2 or FSDP1."""
    return shard_blocks(draft) or wrap_policy(draft)


def shard_blocks(draft: Draft) -> bool:
    """A loop over the blocks in front of the one `fully_shard(model)`."""
    classes, roots = draft.job.record.actual.compile.blocks.names, _calls(draft, SHARD)
    return bool(classes) and len(roots) == 1 and _shard_blocks(draft, *roots[0], classes)


def wrap_policy(draft: Draft) -> bool:
    """A policy for the one call of FSDP1."""
    classes, wraps = draft.job.record.actual.compile.blocks.names, _calls(draft, FSDP1)
    return bool(classes) and len(wraps) == 1 and _policy(draft, *wraps[0], classes)


def existing_layer_class(draft: Draft) -> bool:
    """The class of the model's blocks in the line that sets accelerate's variable."""
    classes = draft.job.record.actual.compile.blocks.names
    if len(classes) != 1:
        return False
    done = False
    for source in draft.job.sources():
        for assign in source.nodes(cst.Assign):
            target = source.code(assign.targets[0].target)
            if "FSDP_TRANSFORMER_CLS_TO_WRAP" in target and isinstance(literal(assign.value), str):
                draft.of(source).change(assign.value, lambda node: cst.SimpleString(f'"{classes[0]}"'))
                done = True
    return done


def call_the_wrapper(draft: Draft) -> bool:
    """`model(...)` for the one `model.module(...)`."""
    calls = [
        (source, call)
        for source in draft.job.sources()
        for call in source.calls_of_method("module")
        if isinstance(call.func, cst.Attribute) and is_place(call.func.value)
    ]
    if len(calls) != 1:
        return False
    source, call = calls[0]
    draft.of(source).change(call, lambda node: node.with_changes(func=cst.ensure_type(node.func, cst.Attribute).value))
    return True


def drop_last(draft: Draft) -> bool:
    """The one DataLoader of the job leaves out what does not fill a batch."""
    return _option(draft, LOADERS, "drop_last", "True")


def _shard_blocks(draft: Draft, source: Source, call: cst.Call, classes: tuple[str, ...]) -> bool:
    line = source.statement_of(call)
    if line is None or not source.block_of(line) or not call.args or not is_place(call.args[0].value):
        return False
    if is_open(call):
        return False
    model = source.code(call.args[0].value)
    options = "".join(f", {source.code(arg.with_changes(comma=cst.MaybeSentinel.DEFAULT))}" for arg in call.args[1:])
    used = {node.value for node in source.nodes(cst.Name)}
    item = next(name for name in ("block", "layer", "repeated_block") if name not in used or name == "repeated_block")
    kinds = (
        f'type({item}).__name__ == "{classes[0]}"'
        if len(classes) == 1
        else f"type({item}).__name__ in {tuple(classes)!r}".replace("'", '"')
    )
    name = source.code(call.func)
    draft.of(source).insert_before(
        line, f"for {item} in list({model}.modules()):\n    if {kinds}:\n        {name}({item}{options})"
    )
    return True


def _policy(draft: Draft, source: Source, call: cst.Call, classes: tuple[str, ...]) -> bool:
    """The classes must have names in the file; nothing is imported from inside of a library."""
    known = {node.name.value for node in source.module.body if isinstance(node, cst.ClassDef)}
    known |= {alias.evaluated_alias or alias.evaluated_name for alias in source.nodes(cst.ImportAlias)}
    if not set(classes) <= known or is_open(call):
        return False
    draft.require(source, "from torch.distributed.fsdp.wrap import ModuleWrapPolicy")
    kinds = f"{{{', '.join(classes)}}}"
    draft.of(source).change(call, lambda node: with_keyword(node, "auto_wrap_policy", f"ModuleWrapPolicy({kinds})"))
    return True


def _option(draft: Draft, functions: tuple[str, ...], keyword: str, value: str) -> bool:
    """Give a keyword to the one call of `functions`."""
    calls = _calls(draft, functions)
    if len(calls) != 1 or (is_open(calls[0][1]) and argument(calls[0][1], keyword) is None):
        return False
    source, call = calls[0]
    draft.of(source).change(call, lambda node: with_keyword(node, keyword, value))
    return True


def _plugin(draft: Draft, keyword: str, value: str) -> bool:
    calls = [
        (source, call)
        for source in draft.job.sources()
        for call in source.calls
        if last_name(call) == "FullyShardedDataParallelPlugin" and not is_open(call)
    ]
    if len(calls) != 1:
        return False
    draft.of(calls[0][0]).change(calls[0][1], lambda node: with_keyword(node, keyword, value))
    return True


def _calls(draft: Draft, functions: tuple[str, ...]) -> list[tuple[Source, cst.Call]]:
    return [(source, call) for source in draft.job.sources() for call in source.calls_of(*functions)]
