"""What of torch.compile a fault comes from: the stage of the compiler, the graph, and what was done to that graph.

The stages are torch's own debugging backends, each of which does what the one below does and more: `eager` runs what
Dynamo captures, `aot_eager` what AOTAutograd makes of that, `aot_eager_decomp_partition` decomposes and partitions it
as Inductor does. (https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html)
"""

from __future__ import annotations

from collections.abc import Iterator

from trueup.procedures.bisection.inside.attempts import changed
from trueup.procedures.bisection.inside.graphs import Stage, functions, graphs
from trueup.procedures.bisection.inside.halving import first
from trueup.procedures.bisection.inside.subsystems import subsystems
from trueup.procedures.bisection.trials import Trials
from trueup.schema.bisection import Attempt, Narrowed, Outcome
from trueup.schema.record import Record

RUNGS = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor")
"""Backends, the one that does least first."""
DOES = {
    "eager": "Dynamo's capture",
    "aot_eager": "AOTAutograd's tracing of forward and backward",
    "aot_eager_decomp_partition": "Inductor's decompositions, and the partitioner of forward and backward",
    "inductor": "Inductor's passes, lowerings and generated code",
}
MOST = 40
"""Runs that the questions may cost."""
WITHOUT_STAGES = ("coverage", "slow")
"""Kinds of faults that a lower backend shows or hides by what it is, and not by what it computes."""


def narrow(trials: Trials, base: Attempt, record: Record) -> Iterator[Narrowed]:
    """The stage, the graphs, and the subsystem with its application. Raises OutOfRuns."""
    assert trials.oracle is not None, "nothing is looked for yet"
    kind = trials.oracle.signature.kind
    if kind in WITHOUT_STAGES:
        return
    backend = own_backend(record)
    below = RUNGS[: RUNGS.index(backend)] if backend in RUNGS else RUNGS[:-1]
    attempts = [changed(base, f"compile={rung}", layers={"compile": rung}) for rung in below] + [base]

    def probe(place: int) -> Outcome:
        return trials.settled(attempts[place])

    low, high = first(-1, len(below), probe)
    name = (*below, backend)[high]
    stage = Stage(name=name, fails=attempts[high], below=below[low] if low >= 0 else None)
    told = _evidence(stage, below[low + 1 : high])
    yield Narrowed(layer="compile", what="backend", answer=name, evidence=told)
    if kind == "finding" or high - low > 1:
        return
    seen = trials.records(attempts[low]) if low >= 0 else ()
    failing = trials.records(stage.fails) or (record,)
    if stage.below is None:
        if kind != "exception":  # that one names the frame itself
            yield from functions(trials, stage, failing[-1])
        return
    guilty, stage = yield from graphs(trials, stage, [*seen[-1:], failing[-1]])
    if guilty and name in DOES:
        yield from subsystems(trials, stage)


def own_backend(record: Record) -> str:
    """The backend of the job; of several the one that does most."""
    told = [each.detail.get("backend") for each in record.order if each.layer == "compile"]
    asked = [str(each) for each in told if each] or ["inductor"]
    return max(asked, key=lambda each: RUNGS.index(each) if each in RUNGS else len(RUNGS))


def _evidence(stage: Stage, odd: tuple[str, ...]) -> str:
    passes = f"compile={stage.below}" if stage.below else "compile=off"
    does = f"; between them: {DOES[stage.name]}" if stage.name in DOES else ""
    return f"fails with {stage.name}, passes with {passes}{does}" + (
        f"; it ends otherwise with {', '.join(odd)}" if odd else ""
    )
