"""Measure every way of a case: each is tried once, then all take turns, so that noise favours none."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trueup.attention.bench import memory
from trueup.attention.bench.case import Case, density, inputs
from trueup.attention.bench.roofline import Peaks
from trueup.attention.bench.statistics import timing
from trueup.attention.bench.trying import Trials, Tried
from trueup.attention.bench.ways import no_warnings, ways
from trueup.attention.call import Place
from trueup.attention.devices import processor
from trueup.attention.knowledge import KERNELS
from trueup.schema.attention_bench import Bench, LeftOut, Row, in_words

BUDGET = 60.0
"""Seconds that all of it may take, by default."""
LEAST, MOST = 5, 100
"""Rounds."""

MODES = {"cpu": ("default",), "cuda": ("default", "max-autotune-no-cudagraphs")}


class NoDevice(ValueError):
    """The device that was asked for, or a kernel or mode, is not there; the message says what is."""


def bench(
    case: Case,
    *,
    device: str | None = None,
    budget: float = BUDGET,
    repeat: int | None = None,
    modes: Sequence[str] | None = None,
    kernels: Sequence[str] = (),
    say: Callable[[str], object] = lambda text: None,
) -> Bench:
    """Measure what serves `case` on `device`: `cpu` or `cuda`, by default a GPU where there is one. Imports torch.

    `budget`: seconds after which no new work is begun. `repeat`: rounds, by default as many as the time allows.
    `kernels`: only these. `say` is told what is being done. Raises NoDevice.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # else torch's profiler prints two lines each time
    import torch

    device = _checked(torch, device, kernels, modes)
    began = time.perf_counter()
    given = inputs(case, torch, device)
    if case.backward:
        given = (*(each.requires_grad_() for each in given[:3]), given[3])
    say("measuring a large matrix product and a large copy")
    peaks = Peaks(case, torch, device)
    place = here(torch, device)
    trials = Trials(case, torch, device, given, peaks, place, budget)
    tried: list[Tried] = []
    left: list[LeftOut] = []
    with no_warnings():
        for way in ways(device, tuple(MODES[device] if modes is None else modes)):
            if kernels and way.kernel not in kernels:
                continue
            say(f"trying {way.kernel}{', ' + in_words(way.mode) if way.mode else ''}")
            outcome = trials.of(way, time.perf_counter() - began)
            if isinstance(outcome, Tried):
                tried.append(outcome)
            else:
                left.append(LeftOut(kernel=way.kernel, mode=way.mode, reason=outcome))
        rounds = _turns(tried, repeat, budget - (time.perf_counter() - began), say)
    rows = _sorted_rows(tried, case, peaks)
    left += _of_other_devices(device, place, case, kernels)
    return Bench(
        device=device_name(torch, device),
        device_type=device,
        threads=torch.get_num_threads(),
        torch=str(torch.__version__),
        query=case.query,
        key=case.key,
        dtype=case.dtype,
        mask=case.mask_in_words,
        density=density(case),
        backward=case.backward,
        rows=tuple(rows),
        left_out=tuple(left),
        roofline=peaks.roofline(case, case.backward),
        memory_by=memory.HOW[device],
        rounds=rounds,
        seconds=time.perf_counter() - began,
    )


def _checked(torch: Any, device: str | None, kernels: Sequence[str], modes: Sequence[str] | None) -> str:
    if device == "cuda" and not torch.cuda.is_available():
        raise NoDevice(f"torch {torch.__version__} sees no GPU here; leave --device out to measure on the CPU")
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    known = [way.kernel for way in ways(device, ("default",))]
    for name in kernels:
        if name not in known:
            raise NoDevice(f"no kernel {name!r} to measure on {device}; choose from {', '.join(dict.fromkeys(known))}")
    from torch._inductor import list_mode_options

    for mode in modes or ():
        if mode not in (possible := [*list_mode_options(), "default"]):
            raise NoDevice(f"torch.compile has no mode {mode!r}; choose from {', '.join(dict.fromkeys(possible))}")
    return device


def _turns(tried: list[Tried], repeat: int | None, seconds: float, say: Callable[[str], object]) -> int:
    """Rounds in which each is measured once, in an order that is another one each round."""
    if not tried:
        return 0
    cost = sum(sum(each.run.once()) for each in tried)
    rounds = repeat or max(LEAST, min(MOST, int(seconds / max(cost, 1e-9))))
    say(f"measuring {len(tried)} in {rounds} rounds")
    until = time.perf_counter() + max(seconds, 0.0)
    collecting = gc.isenabled()
    gc.disable()
    try:
        for number in range(rounds):
            turn = number % len(tried)
            order = [*tried[turn:], *tried[:turn]]
            for each in reversed(order) if number % 2 else order:
                forward, backward = each.run.once()
                each.forward.append(forward)
                each.backward.append(backward)
            if repeat is None and number + 1 >= LEAST and time.perf_counter() > until:
                return number + 1
    finally:
        if collecting:
            gc.enable()
    return rounds


def _sorted_rows(tried: list[Tried], case: Case, peaks: Peaks) -> list[Row]:
    """The fastest first, each beside it; those without the backward pass that was asked for last."""
    made = sorted(((_row(each, case, peaks), each) for each in tried), key=lambda pair: _place(pair[0], case))
    if not made:
        return []
    first = made[0][1]
    rows = []
    for row, each in made:
        same = each.run.backward == first.run.backward
        ratios = [one / other for one, other in zip(each.sums, first.sums, strict=True)] if same else []
        rows.append(msgspec.structs.replace(row, relative=timing(ratios)) if ratios else row)
    return rows


def _row(tried: Tried, case: Case, peaks: Peaks) -> Row:
    forward = timing(tried.forward)
    backward = timing(tried.backward) if tried.run.backward else None
    both = timing(tried.sums) if backward else None
    least = peaks.roofline(case, tried.run.backward).seconds
    return msgspec.structs.replace(
        tried.row, forward=forward, backward=backward, both=both, roofline=least / (both or forward).median
    )


def _place(row: Row, case: Case) -> tuple[bool, float]:
    return (case.backward and row.both is None, row.whole.median)


def _of_other_devices(device: str, place: Place, case: Case, kernels: Sequence[str]) -> list[LeftOut]:
    """Kernels that are known and have no way here."""
    measured = {way.kernel for way in ways(device, ("default",))}
    found = []
    for name, kernel in KERNELS.items():
        if name in measured or "/" in name or (kernels and name not in kernels):
            continue
        obstacles = kernel.obstacles(case.call(place))
        reason = (
            f"needs {obstacles[0].constraint.about}: {obstacles[0].constraint.needs}" if obstacles else "not measured"
        )
        found.append(LeftOut(kernel=name, reason=reason))
    return found


def here(torch: Any, device: str) -> Place:
    """What this process runs on."""
    release = tuple(int(part) for part in torch.__version__.partition("+")[0].split(".")[:3] if part.isdecimal())
    capability = torch.cuda.get_device_capability() if device == "cuda" else None
    return Place(device="cuda" if device == "cuda" else "cpu", capability=capability, versions={"torch": release})


def device_name(torch: Any, device: str) -> str:
    """What the driver or the kernel calls it."""
    if device == "cuda":
        return str(torch.cuda.get_device_name())
    try:
        return processor(Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:
        return processor("")
