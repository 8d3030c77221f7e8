"""The case of a bisect: a control that is well, the job that fails, and what it fails with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from trueup.procedures.agreement import agreement
from trueup.procedures.bisection.layers import fixed, present, was_switched, without
from trueup.procedures.bisection.oracle import Oracle
from trueup.procedures.bisection.signatures import ended, finding_of, signature_of
from trueup.procedures.bisection.suspects import Layers
from trueup.procedures.bisection.trials import Trials
from trueup.runs.probe import EAGER_RANDOM
from trueup.schema.bisection import Attempt, Outcome, Signature
from trueup.schema.finding import Finding
from trueup.schema.record import Record

TRIES = 3
"""Runs of the whole job until one fails."""
CONTROL_LIMIT = 900.0
"""Seconds after which a control is ended, where nothing is known of the job's time."""
CHANGES_TRAINING = ("adapter",)
"""Layers without which a job trains something else: its losses then differ by no fault."""


class NoCase(Exception):
    """There is nothing to search: the message says why."""

    def __init__(
        self,
        verdict: Literal["nothing fails", "not reproduced", "not of the layers"],
        why: str,
        *,
        job: Record | None = None,
        signature: Signature | None = None,
        control: Outcome | None = None,
    ) -> None:
        super().__init__(why)
        self.verdict = verdict
        self.job = job
        """The last run of the job as it is."""
        self.signature = signature
        """What it showed."""
        self.control = control
        """Whether the run with all layers off showed the same."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A job that fails, and what of it can be switched."""

    oracle: Oracle
    job: Record
    control: Record
    """With the layers of `layers` off, but for those that stay on."""
    layers: tuple[str, ...]
    stays: dict[str, str] = {}
    """Layer → why it cannot be switched off in this job."""
    environment: dict[str, str] = {}
    """Variables of all runs."""

    @property
    def given(self) -> Layers:
        """The layers that are on in all runs."""
        return frozenset(self.stays)

    @property
    def finding(self) -> Finding | None:
        """The rule of the catalogue that names the fault."""
        return named_by(self.oracle.signature, self.job)

    def attempt(self, on: Layers) -> Attempt:
        """The job with these layers as it has them, and the others off."""
        return without(self.layers, on, self.environment)


def named_by(signature: Signature, job: Record) -> Finding | None:
    """The rule of the catalogue that names the fault of a job."""
    if signature.kind == "finding":
        return finding_of(job, signature.rule, notes=signature.given)
    errors = (each for each in job.findings if each.severity == "error" and each.confidence != "possible")
    return next(errors, None)


def case_of(trials: Trials, fault: Signature | None, chosen: tuple[str, ...], say: Callable[[str], object]) -> Case:
    """Run a control and the job as it is, until it fails; what it then shows is looked for, unless `fault` is given.

    Raises NoCase when it does not fail, or has none of the `chosen` layers.
    """
    control = _control(trials, chosen, say)
    job, oracle = _failing(trials, fault, control, say)
    environment: dict[str, str] = {}
    if oracle is None or oracle.signature.kind == "loss":
        environment = {EAGER_RANDOM: "1"}
        chosen = tuple(each for each in chosen if each not in CHANGES_TRAINING)
        job, control, oracle = _compared(trials, fault, chosen, environment, say)
    trials.oracle = oracle
    layers = present(job, control, chosen)
    if not layers:
        why = "the job has no layer that can be switched off"
        seen = oracle.outcome(control)[0]
        raise NoCase("not of the layers", why, job=job, signature=oracle.signature, control=seen)
    return Case(
        oracle=oracle, job=job, control=control, layers=layers, stays=fixed(layers, job), environment=environment
    )


def _control(trials: Trials, chosen: tuple[str, ...], say: Callable[[str], object]) -> Record:
    """A run with all layers off, whether or not the job has them: its time tells how long the others may take."""
    say("the control: all layers off")
    control = trials.run([without(chosen, frozenset())], trials.timeout or CONTROL_LIMIT)[0]
    trials.follow(control, was_switched("compile", control))
    return control


def _failing(
    trials: Trials, fault: Signature | None, control: Record, say: Callable[[str], object]
) -> tuple[Record, Oracle | None]:
    """The job as it is, and what it shows; no oracle where it ends well, so that its losses are left to compare."""
    for _ in range(TRIES):
        say("the job as it is")
        job = trials.run([Attempt()])[0]
        signature = fault or signature_of(job)
        if signature is None:
            continue
        oracle = Oracle(signature, [control])
        if oracle.outcome(job)[0] == "fails":
            return job, oracle
    if fault is None and not job.exit.code:
        return job, None
    raise NoCase("not reproduced", f"{TRIES} runs of the job as it is; the last: {ended(job)}", job=job)


def _compared(
    trials: Trials,
    fault: Signature | None,
    chosen: tuple[str, ...],
    environment: dict[str, str],
    say: Callable[[str], object],
) -> tuple[Record, Record, Oracle]:
    """The job and a control in which compiled code draws the same random numbers; two controls show the noise."""
    say("losses are compared with those of two controls")
    attempt = without(chosen, frozenset(), environment)
    controls = [*trials.run([attempt]), *trials.run([attempt])]
    job = trials.run([without((), frozenset(), environment)])[0]
    signature = fault or signature_of(job, controls)
    if signature is None:
        why = f"the job ends well, nothing is found, and {_alike(agreement(controls, [job]).verdict)}"
        raise NoCase("nothing fails", why, job=job)
    oracle = Oracle(signature, controls)
    if oracle.outcome(job)[0] != "fails":
        raise NoCase("not reproduced", oracle.outcome(job)[1], job=job)
    return job, controls[0], oracle


def _alike(verdict: str) -> str:
    """In words, of losses that are not different."""
    if verdict == "not compared":
        return "no losses were seen that could be compared"
    if verdict == "within noise":
        return (
            "its losses differ from the control's no more than those of two controls: set the job's seeds to tell more"
        )
    return "its losses are those of its control"
