"""Which of the graphs that Dynamo captured a fault comes from: the others are given to a backend with which it passes.

TORCH_COMPILE_OVERRIDE_BACKENDS (torch 2.13, torch/_dynamo/graph_id_filter.py) names graphs by the number of their
frame, counted in each process: of several ranks the numbers are the first one's. What is compiled again keeps its
number, what goes on after a graph break gets another. An older torch does not heed the variable.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

import msgspec

from trueup.procedures.bisection.inside.attempts import changed
from trueup.procedures.bisection.inside.halving import needed
from trueup.procedures.bisection.trials import Trials
from trueup.schema.bisection import Attempt, Narrowed, Outcome
from trueup.schema.record import CapturedGraph, Record

OVERRIDE = "TORCH_COMPILE_OVERRIDE_BACKENDS"
FUNCTION = "TORCHDYNAMO_DEBUG_FUNCTION"
"""Name of the only function that Dynamo compiles (torch/_dynamo/convert_frame.py)."""
FEW = 4
"""Graphs that are each run by itself; of more, halves are."""
FUNCTIONS = 6
"""Functions that are each compiled by itself, at most."""

Frames = tuple[int, ...]


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """The stage of the compiler that a fault comes from."""

    name: str
    """Its backend."""
    fails: Attempt
    """With that backend."""
    below: str | None
    """The backend below, with which it passes; None is no compiler."""


def graphs(trials: Trials, stage: Stage, records: Sequence[Record]) -> Generator[Narrowed, None, tuple[Frames, Stage]]:
    """The graphs without any of which it passes. Returns their frames, and the stage in these graphs alone.

    `records`: runs that captured the graphs, perhaps not all before they failed.
    """
    known = {graph.frame: graph for record in records for graph in record.actual.compile.captured}
    frames = tuple(sorted(known))

    def attempt(on: Frames) -> Attempt:
        told = f"{stage.name} in {_numbers(on)}, else {stage.below}"
        others = beyond(on, frames)
        return changed(stage.fails, told, environment={OVERRIDE: f"{others}:{stage.below}"})

    def probe(on: Frames) -> Outcome:
        return trials.settled(attempt(on))

    if len(frames) < 2:
        if frames:
            yield _narrowed(known, frames, "the only one that was captured")
        return frames, stage
    alone: Frames = ()
    if len(frames) <= FEW:
        outcomes = trials.settle([attempt((each,)) for each in frames])
        alone = tuple(each for each, outcome in zip(frames, outcomes, strict=True) if outcome == "fails")
    found = alone or needed(frames, probe)
    if not found:
        return (), stage
    rest = tuple(each for each in frames if each not in found)
    others = bool(rest) and len(frames) > FEW and probe(rest) == "fails"
    if (others or not rest) and probe(()) == "fails":  # this torch does not heed the variable
        return (), stage
    it = "any one of these" if len(alone) > 1 else "it" if len(found) == 1 else "these"
    told = f"fails with {stage.name} in {it} and {stage.below} in the others, of {len(frames)} graphs"
    if others:
        told += "; the other way round, too, so that it is not the only one"
    elif rest and len(frames) > FEW:
        told += "; passes the other way round"
    yield _narrowed(known, found, told)
    one = attempt(alone[:1] or found)
    return found, Stage(name=stage.name, fails=one, below=stage.below)


def functions(trials: Trials, stage: Stage, record: Record) -> Iterator[Narrowed]:
    """Where Dynamo itself is the stage: the functions of which compiling that one alone fails."""
    names = list(dict.fromkeys(name for each in record.actual.compile.captured if (name := _name(each))))
    if not 1 < len(names) <= FUNCTIONS:
        return
    attempts = [changed(stage.fails, f"only {name} compiled", environment={FUNCTION: name}) for name in names]
    outcomes = trials.settle(attempts)
    alone = [name for name, outcome in zip(names, outcomes, strict=True) if outcome == "fails"]
    for name in alone:
        places = [each.function or name for each in record.actual.compile.captured if _name(each) == name]
        yield Narrowed(
            layer="compile",
            what="function",
            answer=", ".join(dict.fromkeys(places)),
            evidence=f"fails with only functions of that name compiled, of {len(names)} names",
        )


def beyond(on: Frames, frames: Frames) -> str:
    """All numbers but `on`, as the variable takes them: `0-1,3,>5`."""
    last = max(frames, default=0)
    off = [each for each in range(last + 1) if each not in on]
    parts = []
    while off:
        run = [off.pop(0)]
        while off and off[0] == run[-1] + 1:
            run.append(off.pop(0))
        parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ",".join([*parts, f">{last}"])


def _numbers(frames: Frames) -> str:
    if not frames:
        return "no graph"
    return f"graph{'' if len(frames) == 1 else 's'} {', '.join(map(str, frames))}"


def _name(graph: CapturedGraph) -> str | None:
    return graph.function.partition(" (")[0] if graph.function else None


def _narrowed(known: dict[int, CapturedGraph], frames: Frames, evidence: str) -> Narrowed:
    told = [f"graph {each}" + (f", {known[each].function}" if known[each].function else "") for each in frames]
    return Narrowed(layer="compile", what="graph", answer="; ".join(told), evidence=evidence)
