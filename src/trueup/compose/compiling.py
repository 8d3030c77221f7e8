"""Each block compiled in place under its policy, and what happens to one that is compiled again and again."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any

from trueup.compose import breaks
from trueup.compose.composed import Composed
from trueup.compose.errors import ComposeError, RecompilesBeyondLimit, RecompileWarning
from trueup.compose.plan import CompilePolicy
from trueup.compose.variants import BlockRuns, marked, running
from trueup.instrument import inside

ROOM = 2
"""Variants that Dynamo must allow each block beyond the policy's limit: the first one, and the one that exceeds it."""


def compile_blocks(done: Composed) -> None:
    """Compile every block of `done.blocks` in place."""
    inside.make_importable()
    from trueup_instrument.appliers.compiling import compile_in_place

    policy = done.plan.compile
    assert policy is not None
    breaks.listen()
    options = {
        "backend": marked(_backend(policy), _name(policy.backend)),
        "dynamic": policy.dynamic,
        "fullgraph": policy.fullgraph,
        **_room_for_variants(done, policy),
    }
    for name, block in done.blocks.items():
        runs = done.runs[name] = BlockRuns(name, type(block).__name__)
        compile_in_place(block, options)
        block._compiled_call_impl = _followed(block, block._compiled_call_impl, runs, policy)
    done.applied_layer("compile", f"per block, in place, backend {_name(policy.backend)}", len(done.blocks))


def _followed(block: Any, compiled: Callable[..., Any], runs: BlockRuns, policy: CompilePolicy) -> Callable[..., Any]:
    """The compiled call of one block, which counts the variants it runs and keeps to the policy."""
    import torch

    def call(*args: Any, **kwargs: Any) -> Any:
        if exceeds(runs, policy) and policy.beyond == "eager" and not _in_backward(torch):
            block._compiled_call_impl = None
            runs.eager = True
            return block._call_impl(*args, **kwargs)
        outer, running.block = running.block, runs
        runs.calls += 1
        runs.graphs = 0
        try:
            result = compiled(*args, **kwargs)
        finally:
            running.block = outer
        if runs.grown:
            runs.grown = False
            if exceeds(runs, policy):
                _tell(runs, policy)
        return result

    # where the user's own compiled code calls a block, this function is not to be looked at as code of the user's
    skipped: Callable[..., Any] = torch.compiler.disable(call, recursive=False)
    return skipped


def exceeds(runs: BlockRuns, policy: CompilePolicy) -> bool:
    return policy.recompiles_per_block is not None and runs.recompiled > policy.recompiles_per_block


def _tell(runs: BlockRuns, policy: CompilePolicy) -> None:
    reasons = "; ".join(reason for reason, _ in runs.recompiles.most_common(2))
    text = (
        f"block {runs.name} ({runs.kind}) was recompiled {runs.recompiled} times, "
        f"CompilePolicy(recompiles_per_block={policy.recompiles_per_block}) allows {policy.recompiles_per_block}"
        + (f"; compiled again because: {reasons}" if reasons else "")
    )
    if policy.beyond == "raise":
        raise RecompilesBeyondLimit(text)
    if policy.beyond == "eager":
        text += "; from its next forward pass on this block runs eager"
    warnings.warn(text, RecompileWarning, stacklevel=3)


def _in_backward(torch: Any) -> bool:
    """Within a backward pass a checkpoint computes a block again: it must do that as the forward pass did it."""
    return bool(torch._C._current_graph_task_id() != -1)


def _backend(policy: CompilePolicy) -> Callable[..., Any]:
    """The function that compiles a graph. Raises ComposeError for a name that torch does not know."""
    if callable(policy.backend):
        return policy.backend
    if policy.mode or policy.options:
        from torch._inductor import list_mode_options
        from torch._inductor.compile_fx import compile_fx

        patches = dict(policy.options) or list_mode_options(policy.mode, policy.dynamic)
        return functools.partial(compile_fx, config_patches=patches)
    from torch._dynamo import list_backends, lookup_backend
    from torch._dynamo.exc import InvalidBackend

    try:
        backend: Callable[..., Any] = lookup_backend(policy.backend)
    except InvalidBackend:
        known = ", ".join(list_backends(None))
        raise ComposeError(f"CompilePolicy(backend={policy.backend!r}) is none of {known}") from None
    return backend


def _name(backend: str | Callable[..., Any]) -> str:
    return backend if isinstance(backend, str) else getattr(backend, "__name__", type(backend).__name__)


def _room_for_variants(done: Composed, policy: CompilePolicy) -> dict[str, Any]:
    """Dynamo's limits hold for the code that all blocks share: they must not end it before a block's own does."""
    import torch
    from torch._dynamo import config

    if policy.recompiles_per_block is None:
        return {}
    needed = len(done.blocks) * (policy.recompiles_per_block + ROOM)
    if config.accumulated_recompile_limit < needed:
        done.set_dynamo("accumulated_recompile_limit", needed)
    if "recompile_limit" in inspect.signature(torch.compile).parameters:  # from torch 2.12 on, for these blocks alone
        return {"recompile_limit": max(needed, config.recompile_limit)}
    if config.recompile_limit < needed:
        done.set_dynamo("recompile_limit", needed)
    return {}
