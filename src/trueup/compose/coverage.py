"""How much of a plan was observed: blocks compiled, parameters sharded, what ran otherwise and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from trueup.compose.composed import Composed
from trueup.compose.errors import NotAsPlanned
from trueup.instrument import inside


@dataclass(frozen=True, kw_only=True, slots=True)
class Coverage:
    """What was observed until now on this rank; None where the plan asks for no such layer."""

    forwards: int
    """Calls of the composed model."""
    blocks_total: int
    blocks_compiled: int | None
    """Blocks whose last call ran in compiled graphs, without a break."""
    breaks: dict[str, int]
    """Reason and place → how often it was seen while a block was compiled."""
    recompiles: dict[str, int]
    """Reason → times that a block was compiled again for it."""
    eager: tuple[str, ...]
    """Blocks that the policy has run as plain Python since they were recompiled beyond the limit."""
    checkpointed: int | None
    """Blocks that hold their checkpoint; where compiled, it was also captured in a graph."""
    sharded_fraction: float | None
    """Share of the bytes of all parameters that is split over ranks."""
    low_precision: bool | None
    """A forward pass ran under autocast, or the units of FSDP have the policy that was asked for."""
    problems: tuple[str, ...]
    """What is not as planned, in sentences."""

    @property
    def complete(self) -> bool:
        return not self.problems

    def require(self) -> Coverage:
        """This coverage, or NotAsPlanned with everything that is not as planned."""
        if self.problems:
            raise NotAsPlanned("; ".join(self.problems))
        return self

    def __str__(self) -> str:
        parts = [f"{self.forwards} forward passes"]
        if self.blocks_compiled is not None:
            parts.append(f"{self.blocks_compiled}/{self.blocks_total} blocks compiled")
        if self.checkpointed is not None:
            parts.append(f"{self.checkpointed}/{self.blocks_total} blocks checkpointed")
        if self.sharded_fraction is not None:
            parts.append(f"{self.sharded_fraction:.0%} of the parameters sharded")
        return "\n".join([", ".join(parts), *(f"not as planned: {problem}" for problem in self.problems)])


def coverage_of(done: Composed) -> Coverage:
    plan = done.plan
    problems: list[str] = []
    if done.forwards == 0:
        problems.append("no forward pass of Composed.model was seen: train that one, not the model it was made of")
    compiled = _compiled(done, problems) if plan.compile else None
    checkpointed = _checkpointed(done, problems) if plan.checkpointing else None
    sharded = _sharded(done, problems) if plan.sharding.startswith("fsdp") or plan.tensor_parallel else None
    low = _low_precision(done, problems) if plan.precision != "fp32" else None
    return Coverage(
        forwards=done.forwards,
        blocks_total=len(done.blocks),
        blocks_compiled=compiled,
        breaks=_sum([runs.breaks for runs in done.runs.values()]),
        recompiles=_sum([runs.recompiles for runs in done.runs.values()]),
        eager=tuple(name for name, runs in done.runs.items() if runs.eager),
        checkpointed=checkpointed,
        sharded_fraction=sharded,
        low_precision=low,
        problems=tuple(problems),
    )


def _compiled(done: Composed, problems: list[str]) -> int:
    """Blocks of one class share what was compiled: a break seen in one of them is in all of them."""
    every = list(done.runs.values())
    broken = {runs.kind for runs in every if runs.breaks}
    good = [runs for runs in every if runs.graphs and not runs.eager and runs.kind not in broken]
    uncalled = [runs.name for runs in every if not runs.calls]
    if uncalled and done.forwards:
        problems.append(f"{len(uncalled)} blocks were not called: {_named(uncalled)}")
    eager = [runs.name for runs in every if runs.eager]
    if eager:
        problems.append(f"{len(eager)} blocks run eager, recompiled beyond the limit: {_named(eager)}")
    plain = [runs.name for runs in every if runs.calls and not runs.graphs and not runs.eager]
    if plain:
        problems.append(f"{len(plain)} blocks ran no compiled graph in their last call: {_named(plain)}")
    for reason, times in _sum([runs.breaks for runs in every]).items():
        problems.append(f"graph break ({times} times): {reason}")
    for reason in _sum([runs.given_up for runs in every]):
        problems.append(reason)
    return len(good)


def _checkpointed(done: Composed, problems: list[str]) -> int:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointWrapper

    asked = done.plan.checkpointing
    assert asked is not None
    expected = list(done.blocks)[:: asked.every]
    held = [name for name in expected if isinstance(done.blocks[name], CheckpointWrapper)]
    captured = sum(runs.checkpoints for runs in done.runs.values())
    if done.runs and any(runs.graphs for runs in done.runs.values()) and not captured and not asked.reentrant:
        problems.append("no checkpoint was captured in a compiled graph")
        return 0
    return len(held)


def _sharded(done: Composed, problems: list[str]) -> float | None:
    inside.make_importable()
    from trueup_instrument.observers.samples.model import sharding

    own = {id(parameter): parameter for parameter in done.model.parameters()}
    seen = sharding([done.model], own)
    if not seen["bytes_total"]:
        return None
    fraction = float(seen["bytes_sharded"] / seen["bytes_total"])
    if _data_ranks(done) > 1 and done.plan.sharding.startswith("fsdp") and fraction < 1:
        problems.append(f"{fraction:.0%} of the parameters are sharded")
    return fraction


def _data_ranks(done: Composed) -> int:
    """Over how many ranks FSDP has something to split."""
    import torch

    mesh = done.plan.mesh
    if mesh is not None:
        return int(mesh.size() // (mesh["tp"].size() if done.plan.tensor_parallel else 1))
    return int(torch.distributed.get_world_size()) if torch.distributed.is_initialized() else 1


def _low_precision(done: Composed, problems: list[str]) -> bool:
    if not done.plan.sharding.startswith("fsdp"):
        if done.forwards and not done.low_precision_forwards:
            problems.append("no forward pass ran under autocast")
        return done.low_precision_forwards > 0
    from trueup.compose.precision import DTYPES

    inside.make_importable()
    from trueup_instrument.observers.samples.model import sharding

    seen = sharding([done.model], {}).get("param_dtype")
    if seen != DTYPES[done.plan.precision]:
        problems.append(f"the units of FSDP compute in {seen}")
    return bool(seen == DTYPES[done.plan.precision])


def _sum(counters: list[Counter[str]]) -> dict[str, int]:
    return dict(sum(counters, Counter[Any]()))


def _named(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
