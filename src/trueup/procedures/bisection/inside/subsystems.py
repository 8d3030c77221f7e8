"""What the compiler did to a graph that brings a fault: a pass, a decomposition, a lowering.

torch's CompilerBisector (torch/_inductor/compiler_bisector.py) leaves out what its variables say; it is told by ours
which runs fail. Each process counts for itself. Compiled graphs are neither stored nor loaded, so that none comes from
a run in which something else was left out; compiled code is kept by its text, and stays so.
"""

from __future__ import annotations

from collections.abc import Iterator

from trueup.procedures.agreement import LOW
from trueup.procedures.bisection.inside.attempts import changed
from trueup.procedures.bisection.inside.graphs import Stage
from trueup.procedures.bisection.inside.halving import first
from trueup.procedures.bisection.trials import Trials
from trueup.procedures.numerics import lowest_dtype
from trueup.runs.probe import EAGER_RANDOM
from trueup.schema.bisection import Attempt, Narrowed, Outcome

BACKEND, SUBSYSTEM, LAST = "TORCH_BISECT_BACKEND", "TORCH_BISECT_SUBSYSTEM", "TORCH_BISECT_MAX"
NO_CACHES = {"TORCHINDUCTOR_FX_GRAPH_CACHE": "0", "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}
SETTINGS = "TORCH_COMPILE_OVERRIDE_INDUCTOR_CONFIGS"
ORDER = {
    "aot_eager_decomp_partition": ("decomposition",),
    "inductor": ("pre_grad_passes", "joint_graph_passes", "post_grad_passes", "cudagraphs", "lowerings"),
}
"""Stage → its subsystems that can be left out, as the bisector names them, in the order in which they come."""
ONE = {
    "pre_grad_passes": "pass",
    "joint_graph_passes": "pass",
    "post_grad_passes": "pass",
    "decomposition": "decomposition",
    "lowerings": "lowering",
}
"""Subsystem → what one application of it is."""
CHANGES = {
    "emulate_precision_casts": "True",
    "layout_optimization": "False",
    "comprehensive_padding": "False",
    "fallback_random": "True",
}
"""Settings of Inductor that the bisector tries."""
ROUNDING = "emulate_precision_casts"
"""The one of them by which a job in low precision rounds as often as eager code."""


def subsystems(trials: Trials, stage: Stage) -> Iterator[Narrowed]:
    """The subsystem and its application without which the stage passes; nothing where there is no one."""
    if stage.name not in ORDER:
        return
    base = changed(stage.fails, "caches off", environment={BACKEND: stage.name, **NO_CACHES})
    outcome = trials.settled(base)
    records = trials.records(base)
    if outcome != "fails" or not records:
        if outcome == "passes" and any(each.actual.compile.cache_hits for each in trials.records(stage.fails)):
            variables = " ".join(f"{name}={value}" for name, value in NO_CACHES.items())
            told = f"fails with graphs out of the cache, passes with {variables}"
            yield Narrowed(layer="compile", what="cache", answer="a compiled graph of an earlier run", evidence=told)
        return
    applied = records[-1].actual.compile.applied
    ended = records[-1].exit
    rounds = stage.name == "inductor" and lowest_dtype(records[-1]) in LOW
    for subsystem in ORDER[stage.name]:
        if not applied.get(subsystem):
            continue
        if subsystem == "lowerings" and rounds and trials.settled(_with(base, ROUNDING)) == "passes":
            told = f"passes with {ROUNDING}: fused code does not round between operators, where eager code does"
            yield Narrowed(layer="compile", what="setting", answer=ROUNDING, evidence=told)
            return
        if trials.settled(_limited(base, subsystem, -1)) == "passes":
            told = f"passes with all {applied[subsystem]} left out"
            yield Narrowed(layer="compile", what="subsystem", answer=subsystem, evidence=told)
            if subsystem in ONE:
                # a process that was killed has told its last power of two
                most = applied[subsystem] * (2 if ended.signal or ended.reason == "timeout" else 1)
                yield from _application(trials, base, subsystem, most)
            return
    if stage.name == "inductor":
        yield from _setting(trials, base)


def _application(trials: Trials, base: Attempt, subsystem: str, most: int) -> Iterator[Narrowed]:
    """The first application with which it fails, counted from 1."""

    def probe(number: int) -> Outcome:
        return trials.settled(_limited(base, subsystem, number - 1))

    low, high = first(0, most, probe)
    if probe(high) != "fails":
        return
    records = trials.records(_limited(base, subsystem, high - 1))
    names = [name for record in records if (name := record.actual.compile.last_applied)]
    number = f"{ONE[subsystem]} {high}" if high - low == 1 else f"{ONE[subsystem]} {low + 1} to {high}"
    told = f"fails with the first {high} of {most}, passes with {low or 'none'}"
    answer = f"{number}, {names[-1]}" if names and high - low == 1 else number
    yield Narrowed(layer="compile", what=ONE[subsystem], answer=answer, evidence=told)


def _setting(trials: Trials, base: Attempt) -> Iterator[Narrowed]:
    """The setting of Inductor with which it passes: all at once first, since most faults are of none."""
    drawn = EAGER_RANDOM in base.variant.environment
    names = [name for name in CHANGES if not (drawn and name == "fallback_random")]
    if trials.settled(_with(base, *names)) != "passes":
        return
    alone = [name for name in names if trials.settled(_with(base, name)) == "passes"]
    for name in alone:
        told = f"passes with {name} = {CHANGES[name]} in torch._inductor.config"
        yield Narrowed(layer="compile", what="setting", answer=name, evidence=told)


def _with(base: Attempt, *names: str) -> Attempt:
    values = ",".join(f"{name}={CHANGES[name]}" for name in names)
    return changed(base, values, environment={SETTINGS: f">=0:{values}"})


def _limited(base: Attempt, subsystem: str, last: int) -> Attempt:
    """With the applications of a subsystem up to number `last`, from 0, and the later ones left out."""
    told = f"no {subsystem}" if last < 0 else f"{subsystem} up to {last + 1}"
    return changed(base, told, environment={SUBSYSTEM: subsystem, LAST: str(last)})
