"""Which kernel to rather have: by generation and fusion where nothing was measured, else by what was."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from trueup.attention.call import Call, Place
from trueup.attention.knowledge import KERNELS
from trueup.attention.ways import exact_way_to

XFORMERS = ("xformers-flash3", "xformers-flash")
TORCH_FLASH = ("sdpa-flash", "varlen-attn")
FLASH_2 = ("flash-attn-2", "kernels-community/flash-attn2")
FLASH_3 = ("flash-attn-3", "kernels-community/flash-attn3", "kernels-community/vllm-flash-attn3")
FLASH_4 = ("flash-attn-4", "kernels-community/flash-attn4")
REST = ("sdpa-mem-efficient", "xformers-cutlass", "flex", "sdpa-math", "eager", "flex-eager")

CPU = ("sdpa-flash-cpu", "flex", "sdpa-math", "eager", "flex-eager")
BY_GENERATION = (
    ((10, 0), (*FLASH_4, "sdpa-cudnn", *FLASH_2, *TORCH_FLASH, *REST)),
    ((9, 0), (*FLASH_3, "sdpa-cudnn", *FLASH_4, *FLASH_2, *TORCH_FLASH, *XFORMERS, *REST)),
    ((8, 0), (*FLASH_2, *TORCH_FLASH, *FLASH_3, "sdpa-cudnn", *XFORMERS, *REST)),
    ((0, 0), REST),
)
"""From this compute capability on → kernels, the best first. An estimate: each was written for its generation."""


def default_order(place: Place) -> tuple[str, ...]:
    """The best first, as far as anybody can say who has not measured it there."""
    if place.device == "cpu" or place.capability is None:
        return CPU
    return next(order for least, order in BY_GENERATION if place.capability >= least)


def ranking(place: Place, measured: Sequence[str] | None = None) -> tuple[str, ...]:
    """What was measured, the fastest first, then the rest in the default order."""
    return tuple(dict.fromkeys((*(measured or ()), *default_order(place))))


@dataclass(frozen=True, slots=True)
class Choice:
    """A kernel instead of the one that was asked for, and why."""

    requested: str
    actual: str | None
    """None when nothing serves the call."""
    reason: str
    changes: tuple[str, ...] = ()
    """What the caller has to do to the call for it, in words; results stay the same."""


def next_best(
    call: Call,
    usable: Collection[str] | None = None,
    order: Sequence[str] | None = None,
    *,
    requested: str | None = None,
) -> Choice:
    """The kernel that was asked for where it serves the call, else the best of those that do.

    A kernel serves where changes help that leave what is computed as it is: a mask dropped that hides nothing, heads
    repeated, sizes padded. Casts, another dropout and installations are not among them.

    `usable`: names of the kernels that the caller can call; None for all that the knowledge lets pass. `order`: as
    measured, the best first; what is not in it follows in the default order. `requested`: name of a kernel; None for
    the first that the call's entry would take. The reason tells what the kernel asked for lacks.
    """
    from trueup.attention.entries import ENTRIES

    if requested is None:
        requested = ENTRIES[call.entry].order(call)[0]
    ranked = ranking(call.place, order)
    names = tuple(KERNELS) if usable is None else tuple(usable)
    for name in (requested, *sorted(names, key=lambda name: ranked.index(name) if name in ranked else len(ranked))):
        way = exact_way_to(KERNELS[name], call) if name in KERNELS else ()
        if way is None or name not in names:
            continue
        changes = tuple(change.words for change in way)
        if name == requested:
            return Choice(requested, requested, "it serves the call", changes)
        return Choice(requested, name, f"{_lacks(requested, call, names)}; {name} is the next in the order", changes)
    return Choice(requested, None, f"{_lacks(requested, call, names)}; no other kernel serves the call")


def _lacks(requested: str, call: Call, usable: Collection[str]) -> str:
    """The first thing that no exact change helps against."""
    if requested not in usable:
        return f"{requested} is not there"
    for obstacle in KERNELS[requested].obstacles(call) if requested in KERNELS else ():
        change = obstacle.constraint.change(call)
        if change is None or not change.exact:
            constraint = obstacle.constraint
            return f"{requested} needs {constraint.about}: {constraint.needs}; given {obstacle.given}"
    return f"{requested} cannot serve the call"
