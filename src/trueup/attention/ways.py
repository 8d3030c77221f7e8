"""The way to a kernel: the changes after which it serves a call."""

from __future__ import annotations

from trueup.attention.call import Call
from trueup.attention.constraints import Change
from trueup.attention.kernel import Kernel


def way_to(kernel: Kernel, call: Call) -> tuple[Change, ...] | None:
    """The changes that make a kernel serve a call, in their order; () when it does, None when none help."""
    made: list[Change] = []
    obstacles = kernel.obstacles(call)
    while obstacles:
        change = next((each for each in (found.constraint.change(call) for found in obstacles) if each), None)
        if change is None or any(change.words == earlier.words for earlier in made):
            return None
        made.append(change)
        call = change.apply(call)
        obstacles = kernel.obstacles(call)
    return tuple(made)


def exact_way_to(kernel: Kernel, call: Call) -> tuple[Change, ...] | None:
    """The same, None also where it changes what is computed, its precision, or what is installed or switched on."""
    way = way_to(kernel, call)
    return None if way is None or not all(change.exact for change in way) else way
