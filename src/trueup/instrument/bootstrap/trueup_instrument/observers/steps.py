"""Optimizer steps, backward passes, losses and tokens: the pulse of the run."""

import os
import sys

from trueup_instrument import patching
from trueup_instrument.clock import Clock
from trueup_instrument.losses import Losses
from trueup_instrument.sampling import Sampler
from trueup_instrument.series import Series
from trueup_instrument.shapes import batch_size_of

NAME = "steps"


def attach(session):
    limit = _limit()
    clock = session.clock = Clock(limit)
    losses = Losses()
    series = Series(session.write)
    sampler = Sampler(session, clock, limit)
    last_batch = {}

    def stepped(step, seconds, backwards):
        session.mark_trained()
        series.add(seconds, losses.of_step(step), last_batch.pop("tokens", None), backwards)

    def began(roots):
        session.mark_trained()
        if session.optimizer_compiled and clock.backwards > 2:
            clock.counts_backwards = True

    clock.on_backward.append(session.guarded(NAME, losses.add))
    clock.on_backward.append(session.guarded(NAME, began))
    clock.on_step.append(session.guarded(NAME, stepped))
    clock.on_step.append(
        session.guarded("sampling", lambda step, *_: sampler.step_ended(step, last_batch.get("length")))
    )
    clock.before_step.append(session.guarded("sampling", sampler.before_optimizer))
    clock.after_backward.append(session.guarded("sampling", sampler.after_backward))

    def finish():
        sampler.finish()
        series.flush()

    def limit_reached():
        session.end_reason = "steps reached"

    session.at_end(session.guarded(NAME, finish))
    clock.on_limit.append(limit_reached)

    def batch_came(batch, *_):
        size = batch_size_of(batch)
        if size is not None:
            last_batch["tokens"] = last_batch.get("tokens", 0) + size[0]
            last_batch["length"] = size[1]

    session.after_torch(NAME, "torch.optim.optimizer", lambda module: _count_steps(session, clock, module))
    session.after_torch(NAME, "torch.autograd", lambda module: _count_backwards(session, clock, module))
    session.after_torch(NAME, "torch.amp.grad_scaler", lambda module: _follow_scale(session, losses, module))
    session.after_torch(
        NAME,
        "torch.utils.data.dataloader",
        lambda module: patching.around(session, NAME, module._BaseDataLoaderIter, "__next__", after=batch_came),
    )


def _limit():
    text = os.environ.get("TRUEUP_STEPS", "")
    return int(text) if text.isdigit() and int(text) > 0 else None


def _count_steps(session, clock, module):
    """Global optimizer hooks: present since torch 2.0. Inside code that Dynamo traces they do nothing."""
    compiler = sys.modules["torch"].compiler
    is_compiling = getattr(compiler, "is_compiling", lambda: False)

    will_step = session.guarded(NAME, clock.optimizer_will_step)
    stepped = session.guarded(NAME, clock.optimizer_stepped)

    def before(optimizer, args, kwargs):
        if not is_compiling():
            will_step(optimizer)

    def after(optimizer, args, kwargs):
        if not is_compiling():
            if clock.limit is not None and clock.steps >= clock.limit:  # the program swallowed StepsReached
                session.end_now()
            stepped(optimizer)

    module.register_optimizer_step_pre_hook(before)
    module.register_optimizer_step_post_hook(after)


def _count_backwards(session, clock, module):
    """`Tensor.backward` and `torch.autograd.backward` both end in this function."""
    original = module.backward
    begins = session.guarded(NAME, clock.backward_begins)
    ends = session.guarded(NAME, clock.backward_ends)
    is_compiling = patching.is_compiling_question()

    def backward(tensors, *args, **kwargs):
        if is_compiling():
            return original(tensors, *args, **kwargs)
        begins(tensors)
        try:
            return original(tensors, *args, **kwargs)
        finally:
            ends()

    patching.dress(backward, original)
    module.backward = backward


def _follow_scale(session, losses, module):
    def scaled(result, args, kwargs, seen):
        source = args[1] if len(args) > 1 else kwargs.get("outputs")
        losses.scaled(result, source)

    patching.around(session, NAME, module.GradScaler, "scale", after=scaled)
