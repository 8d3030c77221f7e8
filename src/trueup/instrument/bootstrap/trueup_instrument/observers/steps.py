"""Optimizer steps, backward passes, losses and tokens: the pulse of the run."""

from __future__ import annotations

import os

from trueup_instrument import patching, recorder
from trueup_instrument.clock import Clock
from trueup_instrument.losses import Losses
from trueup_instrument.observers.samples.gradients import FIRST_STEPS
from trueup_instrument.sampling import Sampler
from trueup_instrument.series import Series
from trueup_instrument.shapes import batch_size_of
from trueup_instrument.turns import Turns
from trueup_instrument.written import Written

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from trueup_instrument.session import Session

NAME = "steps"


def attach(session: Session) -> None:
    limit = _limit()
    clock = session.clock = Clock(limit)
    losses = Losses()
    series = Series(session.write)
    sampler = session.sampler = Sampler(session, clock, limit)
    last_batch: dict[str, int] = {}

    def live_optimizers() -> list[Any]:
        return list(getattr(session, "optimizers", ()))

    written = Written(live_optimizers)
    clock.turns = Turns(live_optimizers)

    def stepped(step: int, seconds: float, backwards: int) -> None:
        session.mark_trained()
        written.forget()
        series.add(seconds, losses.of_step(), last_batch.pop("tokens", None), backwards)

    def hooks_may_be_missing() -> bool:
        return session.optimizer_compiled or "compile_trace" in session.off

    def stepped_unseen() -> bool:
        return hooks_may_be_missing() and written.since_remembered()

    clock.stepped_unseen = stepped_unseen
    clock.on_backward.append(session.guarded("losses", losses.add))
    clock.on_backward.append(lambda roots: session.mark_trained())

    def remember() -> None:
        if not clock.has_other_threads:  # whose gradients another thread may be writing now
            written.remember()

    def backward_ended(began: int, ended: int) -> None:
        if hooks_may_be_missing():
            remember()
        if sampler.sample is not None:
            sample_backward(began, ended)

    sample_backward = session.guarded("sampling", sampler.after_backward)
    clock.after_backward.append(backward_ended)
    session.on_optimizer_compiled.append(session.guarded(NAME, remember))
    clock.on_step.append(session.guarded(NAME, stepped))
    clock.on_step.append(
        session.guarded("sampling", lambda step, *_: sampler.step_ended(step, last_batch.get("length")))
    )
    look_at_gradients = session.guarded("sampling", sampler.before_optimizer)

    def will_step(optimizer: Any) -> None:
        if sampler.sample is not None or clock.steps < FIRST_STEPS:
            look_at_gradients(optimizer)

    clock.before_step.append(will_step)

    def finish() -> None:
        clock.finish()
        sampler.finish()
        series.flush()

    def other_thread() -> None:
        reason = "several threads train at once: only the steps of the first are counted"
        session.write("observer-off", observer=NAME, error=reason)

    clock.on_other_thread.append(session.guarded(NAME, other_thread))

    def limit_reached() -> None:
        session.end_reason = "steps reached"

    session.at_end(session.guarded(NAME, finish))
    clock.on_limit.append(limit_reached)
    clock.on_discard.append(session.guarded("losses", losses.discard))
    clock.beyond_limit.append(session.end_now)  # the program swallowed StepsReached

    def batch_came(batch: Any, *_: object) -> None:
        clock.look_for_unseen_step()
        size = batch_size_of(batch)
        if size is not None:
            last_batch["tokens"] = last_batch.get("tokens", 0) + size[0]
            last_batch["length"] = size[1]
        for listener in session.on_batch:
            listener()

    session.before_fork.append(session.guarded("sampling", sampler.before_fork))
    session.after_fork_in_parent.append(session.guarded("sampling", sampler.after_fork))

    def forget() -> None:
        clock.forget()
        sampler.forget()
        series.forget()
        losses.discard()
        last_batch.clear()
        written.forget()

    session.after_fork_in_child.append(session.guarded(NAME, forget))
    session.after_torch(
        recorder.NAME,
        "torch.autograd.profiler",
        lambda module: recorder.UsersProfiler.watch(session, module),
    )
    session.after_torch(NAME, "torch.optim.optimizer", lambda module: _count_steps(session, clock, module))
    session.after_torch(NAME, "torch.autograd", lambda module: _count_backwards(session, clock, module))
    session.after_torch(NAME, "torch.amp.grad_scaler", lambda module: _follow_scale(session, clock, losses, module))
    session.after_torch(
        NAME,
        "torch.utils.data.dataloader",
        lambda module: patching.around(session, NAME, module._BaseDataLoaderIter, "__next__", after=batch_came),
    )


def _limit() -> int | None:
    text = os.environ.get("TRUEUP_STEPS", "")
    return int(text) if text.isdigit() and int(text) > 0 else None


def _count_steps(session: Session, clock: Clock, module: ModuleType) -> None:
    """Global optimizer hooks: present since torch 2.0. Inside code that Dynamo traces they do nothing.

    There they must not ask `is_compiling`: Dynamo then keeps frames that it would drop. `comptime` leaves no mark.
    """
    will_step = session.guarded(NAME, clock.optimizer_will_step)
    stepped = session.guarded(NAME, clock.optimizer_stepped)
    handles = [
        module.register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: will_step(optimizer)),
        module.register_optimizer_step_post_hook(lambda optimizer, args, kwargs: stepped(optimizer)),
    ]

    def remove() -> None:
        for handle in handles:
            handle.remove()

    session.undo.append(remove)

    def dynamo_came(dynamo: ModuleType) -> None:
        comptime = dynamo.comptime

        def before(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            comptime(_nothing, lambda: will_step(optimizer))

        def after(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            comptime(_nothing, lambda: stepped(optimizer))

        remove()
        handles[:] = [
            module.register_optimizer_step_pre_hook(before),
            module.register_optimizer_step_post_hook(after),
        ]

    session.imports.after("torch._dynamo.comptime", session.guarded(NAME, dynamo_came))


def _nothing(context: Any) -> None:
    """What Dynamo does at compile time in place of a hook."""


def _count_backwards(session: Session, clock: Clock, module: Any) -> None:
    """`Tensor.backward` and `torch.autograd.backward` both end in this function."""
    original = module.backward
    begins = session.guarded(NAME, clock.backward_begins)
    ends = session.guarded(NAME, clock.backward_ends)
    is_compiling = patching.is_compiling_question()

    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(tensors, *args, **kwargs)
        begins(tensors)
        try:
            return original(tensors, *args, **kwargs)
        finally:
            ends()

    patching.dress(backward, original)
    module.backward = backward
    session.undo.append(lambda: patching.take_away(module, "backward", backward, original))


def _follow_scale(session: Session, clock: Clock, losses: Losses, module: ModuleType) -> None:
    """A GradScaler multiplies the loss, and leaves the optimizer's step out when a gradient overflowed."""

    def scaled(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:
        source = args[1] if len(args) > 1 else kwargs.get("outputs")
        losses.scaled(result, source)

    def stepping(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        return clock.optimizer_steps

    def stepped(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:
        if clock.optimizer_steps == seen:
            clock.discard()

    patching.around(session, "losses", module.GradScaler, "scale", after=scaled)
    patching.around(session, NAME, module.GradScaler, "step", before=stepping, after=stepped)
