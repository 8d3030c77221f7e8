"""`--probe packing`: does a document of a packed row change the results of a later one, in the job's own model?

Asked at the first training forward passes of the outermost model, until one is given packed rows. The model is met by
its compiled call, which `nn.Module.__call__` looks for on the instance and Dynamo does not: put there while a batch is
on its way, and taken away before anything is computed.
"""

from __future__ import annotations

import sys
import time
import weakref

from trueup_instrument import modules
from trueup_instrument.probes.agreement import NO, Ranks
from trueup_instrument.probes.calls import Call
from trueup_instrument.probes.documents import documents_of
from trueup_instrument.probes.leakage import CannotMeasure, measure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from trueup_instrument.probes.documents import Documents
    from trueup_instrument.session import Session

NAME = "probe packing"
LOOKS = 8
"""Training forward passes of a job that are looked at until one has packed rows."""
ARMS = 64
"""Times the models are looked for."""
HOOK = "_compiled_call_impl"
PACKED, NOT_PACKED = "packed", "without"
"""Votes: one rank with packed rows is enough."""


def attach(session: Session, options: Mapping[str, Any]) -> None:
    probe = Probe(session, options)
    session.on_batch.append(session.guarded(NAME, probe.arm))
    session.at_end(session.guarded(NAME, probe.ended))
    session.after_fork_in_child.append(session.guarded(NAME, probe.forget))
    clock = session.clock
    if clock is not None:
        clock.on_step.append(session.guarded(NAME, lambda *_: probe.arm()))
        clock.on_backward.append(session.guarded(NAME, lambda roots: probe.disarm()))


class Probe:
    def __init__(self, session: Session, options: Mapping[str, Any]) -> None:
        self._session = session
        self._look_now = session.guarded(NAME, self._look)
        self._eos, self._bos = options.get("eos"), options.get("bos")
        self._armed: list[tuple[weakref.ref[Any], Any, bool]] = []
        self._met: weakref.ref[Any] | None = None
        """The model that was trained at the last look."""
        self._arms = self._looks = 0
        self._why = "no training forward pass of a model was given token ids of several positions"
        self._ranks: Ranks | None = None
        self.done = False

    def forget(self) -> None:
        """In a forked child: what its parent found is the parent's."""
        self.disarm()
        self.done = True

    # -- meeting the model -------------------------------------------------------------------------------------------

    def arm(self) -> None:
        """Be called at the next call of each model."""
        if self.done or self._armed or self._arms >= ARMS:
            return
        self._arms += 1
        began = time.perf_counter()
        met = self._met() if self._met is not None else None
        if met is not None:
            self._arm(met)
        else:
            self._arm_all()
        self._not_the_jobs_time(began)

    def _arm_all(self) -> None:
        for root in modules.roots_of(modules.live_modules()):
            steps_itself = hasattr(type(root), "training_step")  # its forward is not what trains: a LightningModule
            for model in (child for child in root._modules.values() if child is not None) if steps_itself else (root,):
                self._arm(model)

    def _arm(self, model: Any) -> None:
        if next(model.parameters(), None) is None or modules.is_container(model):
            return
        before = model.__dict__.get(HOOK)
        reference = weakref.ref(model)

        def call(*args: Any, **kwargs: Any) -> Any:
            here = reference()
            assert here is not None
            if not _trains(here):
                return (before or here._call_impl)(*args, **kwargs)
            self.disarm()
            self._met = reference
            self._look_now(here, args, kwargs)
            return here(*args, **kwargs)

        self._armed.append((reference, before, HOOK in model.__dict__))
        model.__dict__[HOOK] = call

    def disarm(self) -> None:
        armed, self._armed = self._armed, []
        for reference, before, present in armed:
            model = reference()
            if model is None:
                continue
            if present:
                model.__dict__[HOOK] = before
            else:
                model.__dict__.pop(HOOK, None)

    # -- one forward pass --------------------------------------------------------------------------------------------

    def _look(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        clock, sampler = self._session.clock, self._session.sampler
        if clock is not None and clock.in_backward:
            return
        sample = sampler.sample if sampler is not None else None
        began = time.perf_counter()
        if sample is not None:
            sample.pause()
        try:
            self._ask(model, args, kwargs)
        finally:
            if sample is not None:
                sample.resume()
            self._not_the_jobs_time(began)

    def _not_the_jobs_time(self, began: float) -> None:
        clock, sampler = self._session.clock, self._session.sampler
        took = time.perf_counter() - began
        if sampler is not None and sampler.sample is not None:
            sampler.sample.started += took
        if clock is not None:
            clock.not_my_time(took)

    def _ask(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """One round of all ranks: where one of them has packed rows, all compute."""
        self._ranks = self._ranks or Ranks("probe packing")
        vote, call, tokens, documents = NO, None, None, None
        try:
            call = Call(model, args, kwargs)
            tokens = call.tokens()
            if tokens is not None and not _hinders(model):
                documents = documents_of(call.named, call.named[tokens], eos=self._eos, bos=self._bos)
                vote = PACKED if documents is not None else NOT_PACKED
        finally:
            decision = self._ranks.decide(vote)
        why = _hinders(model)
        if decision == NO:
            if why or self._ranks.size > 1:
                self._tell({"verdict": "not probed", "reason": why or "the ranks did not come to it together"})
            return
        if decision == NOT_PACKED:
            self._looks += 1
            self._why = f"{self._looks} training forward passes were looked at"
            if self._looks >= LOOKS:
                self._tell({"verdict": "not packed", "reason": self._why})
            return
        if call is not None and tokens is not None:
            self._measure(model, call, tokens, documents)

    def _measure(self, model: Any, call: Call, tokens: str, documents: Documents | None) -> None:
        try:
            found = measure(model, call, tokens, documents)
        except CannotMeasure as error:
            found = {"verdict": "not probed", "reason": str(error)}
        self._tell(found or {"verdict": "not packed", "reason": "other ranks had packed rows"})

    def _tell(self, found: dict[str, Any]) -> None:
        self.done = True
        self._session.write("probe", probe="packing", **found)

    def ended(self) -> None:
        if not self.done and self._session.trained:
            verdict = "not packed" if self._looks else "not probed"
            self._tell({"verdict": verdict, "reason": self._why})


def _trains(model: Any) -> bool:
    torch = sys.modules["torch"]
    return (
        torch.is_grad_enabled()
        and not torch.compiler.is_compiling()
        and model.training
        and any(parameter.requires_grad for parameter in model.parameters())
    )


def _hinders(model: Any) -> str | None:
    """Why no further forward pass can be made without leaving a trace."""
    if any(hasattr(parameter, "ds_id") for parameter in model.parameters()):
        return "DeepSpeed ZeRO-3 records each forward pass"
    return None
