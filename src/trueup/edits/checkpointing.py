"""Activation checkpointing: the variant, the random state, and what goes with it."""

from __future__ import annotations

import libcst as cst

from trueup.edits.calls import argument, is_open, takes_options, with_keyword
from trueup.edits.draft import Draft, assigned, last_name, literal
from trueup.edits.values import put, sites, sites_with

FUNCTIONS = ("torch.utils.checkpoint.checkpoint", "torch.utils.checkpoint.checkpoint_sequential")
OPTIONS = '{"use_reentrant": False}'


def non_reentrant(draft: Draft) -> bool:
    """What names the reentrant variant, else the calls that leave it to a default."""
    sources = draft.job.sources()
    done = put(draft, sites_with(sources, ("use_reentrant",), lambda value: value is True), "False")
    for source in sources:
        for node in source.nodes(cst.Attribute):
            if node.attr.value == "REENTRANT" and last_name(node.value) == "CheckpointImpl":
                draft.of(source).change(node.attr, lambda name: cst.Name("NO_REENTRANT"))
                done = True
    if done:
        return True
    if sites(sources, "use_reentrant"):  # the value is computed
        return False
    for source in sources:
        for call in source.calls_of(*FUNCTIONS):
            if takes_options(call):
                return False
            draft.of(source).change(call, lambda node: with_keyword(node, "use_reentrant", "False"))
            done = True
        for call in source.calls_of_method("gradient_checkpointing_enable"):
            if not call.args:
                draft.of(source).change(call, lambda node: with_keyword(node, "gradient_checkpointing_kwargs", OPTIONS))
                done = True
        for call in source.calls:
            if literal(argument(call, "gradient_checkpointing")) is True and not is_open(call):
                draft.of(source).change(call, lambda node: with_keyword(node, "gradient_checkpointing_kwargs", OPTIONS))
                done = True
    return done


def preserve_rng_state(draft: Draft) -> bool:
    return put(draft, sites_with(draft.job.sources(), ("preserve_rng_state",), lambda value: value is False), "True")


def no_determinism_check(draft: Draft) -> bool:
    """Nothing is compared when a checkpoint runs again."""
    done = False
    for source in draft.job.sources():
        for call in source.calls_of(*FUNCTIONS):
            if takes_options(call):
                return False
            draft.of(source).change(call, lambda node: with_keyword(node, "determinism_check", '"none"'))
            done = True
    return done


def autocast_without_cache(draft: Draft) -> bool:
    """The one autocast of the job keeps no casts of weights."""
    calls = [
        (source, call)
        for source in draft.job.sources()
        for call in source.calls_of("torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast")
    ]
    if len(calls) != 1 or is_open(calls[0][1]):
        return False
    source, call = calls[0]
    draft.of(source).change(call, lambda node: with_keyword(node, "cache_enabled", "False"))
    return True


def input_gradients(draft: Draft) -> bool:
    """`enable_input_require_grads()` behind the line that attaches the adapters; gone where it is switched off."""
    places = draft.job.applied("get_peft_model")
    target = assigned(places[0][2]) if len(places) == 1 else None
    if target is None or not draft.job.applied("config"):
        return False
    source = places[0][1]
    for call in source.calls_of_method("disable_input_require_grads"):
        line = source.statement_of(call)
        if line is not None:
            draft.of(source).remove(line)
    draft.of(source).insert_after(places[0][2], f"{source.code(target[0])}.enable_input_require_grads()")
    return True
