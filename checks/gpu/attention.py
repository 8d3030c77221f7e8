"""Attention kernels: what trueup tells before against what runs, on the device at hand, in less than three minutes.

    python checks/gpu/attention.py [--device cuda|cpu] [--seconds N] > attention.json

Makes calls through scaled_dot_product_attention, FlexAttention, varlen_attn and whatever of flash-attn 2, 3, 4 and
xformers is installed, each with its backward, and prints JSON: per call the kernel predicted and the one that ran, then
what disagrees and what was not checked, with the reason. Exits 1 when something disagrees.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from trueup.attention.call import Call, Mask, Place
from trueup.attention.callers import CALLERS, NotMade, try_call
from trueup.attention.entries import ENTRIES
from trueup.attention.here import PACKAGES, release
from trueup.attention.knowledge import KERNELS
from trueup.attention.predict import predict
from trueup.attention.words import call_in_words, place_in_words

SHAPE = (2, 8, 256, 64)
COMPILED_CALLS = 6
"""Each compiles a kernel, which takes seconds."""


def place_of(device: str) -> Place:
    """The device and what is installed, as torch tells it."""
    import torch

    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = release(version(name))
        except PackageNotFoundError:
            continue
    versions["torch"] = release(torch.__version__)
    if device == "cpu":
        return Place(versions=versions)
    cudnn = torch.backends.cudnn.version() or 0
    versions |= {"cuda": release(torch.version.cuda or "0"), "cudnn": (cudnn // 10000, cudnn // 100 % 100, cudnn % 100)}
    return Place(device="cuda", capability=torch.cuda.get_device_capability(), versions=versions)


def variants(entry: str, place: Place) -> Iterator[Call]:
    """Calls that differ from a plain one in one or two things, those that decide first."""
    half = "bf16" if place.device == "cpu" or (place.capability or (0,)) >= (8,) else "fp16"
    plain = Call(
        query=SHAPE, key=SHAPE, value=SHAPE, dtype=half, entry=entry, compiled=entry == "flex", place=place,
        requires_grad=not (entry == "flex" and place.device == "cpu"),
    )  # fmt: skip
    yield plain
    yield replace(plain, mask=Mask(kind="causal"))
    grouped = (2, 2, 256, 64)
    for mask in (Mask(), Mask(kind="causal")):
        yield replace(plain, key=grouped, value=grouped, enable_gqa=True, mask=mask)
    yield replace(plain, mask=Mask(kind="document"))
    yield replace(plain, mask=Mask(kind="window", window=32))
    for kind in ("padding", "all-ones", "float", "causal-tensor"):
        yield replace(plain, mask=Mask(kind=kind))
        yield replace(plain, mask=Mask(kind=kind), key=grouped, value=grouped, enable_gqa=True)
    yield replace(plain, key=grouped, value=grouped)
    for dtype in ("fp32", "fp16", "bf16", "fp64"):
        yield replace(plain, dtype=dtype)
        yield replace(plain, dtype=dtype, mask=Mask(kind="padding"))
    for size in (8, 12, 33, 96, 128, 160, 192, 224, 256, 264, 512):
        shape = (2, 8, 256, size)
        for trained in (True, False):
            yield replace(plain, query=shape, key=shape, value=shape, requires_grad=plain.requires_grad and trained)
    yield replace(plain, value=(2, 8, 256, 128))
    yield replace(plain, value=(2, 8, 256, 32))
    mla = (2, 8, 256, 192)
    yield replace(plain, query=mla, key=mla, value=(2, 8, 256, 128))
    for dropout in (0.1, 0.125):
        yield replace(plain, dropout=dropout)
    yield replace(plain, dropout=0.1, query=(2, 8, 256, 256), key=(2, 8, 256, 256), value=(2, 8, 256, 256))
    yield replace(plain, softcap=True)
    yield replace(plain, contiguous=False)
    yield replace(plain, key=(2, 8, 128, 64), value=(2, 8, 128, 64))
    yield replace(plain, key=(2, 8, 128, 64), value=(2, 8, 128, 64), mask=Mask(kind="causal"))
    yield replace(plain, query=(2, 8, 1, 64), requires_grad=False)
    yield replace(plain, key=(2, 8, 1, 64), value=(2, 8, 1, 64))
    for shape in ((8, 256, 64), (256, 64)):
        yield replace(plain, query=shape, key=shape, value=shape)
    if entry == "sdpa":
        for names in (("flash",), ("flash", "cudnn"), ("flash", "cudnn", "efficient"), ("math",), ("cudnn",)):
            yield replace(plain, place=replace(place, disabled=frozenset(names)))


def skipped(call: Call) -> str | None:
    """Why a call of this entry cannot be made here as a value tells it; None for one that can."""
    if call.entry == "sdpa":
        return "scaled_dot_product_attention has no softcap" if call.softcap else None
    if call.rank != 4 or call.mask.kind in ("all-ones", "float", "causal-tensor"):
        return "only 4 dimensions and masks of flags and lengths are made through this function"
    packed = call.entry == "varlen_attn" or call.mask.kind in ("document", "padding")
    if packed and call.key_length != call.length:
        return "packed calls are made with as many keys as queries"
    if call.entry == "varlen_attn" and (call.softcap or call.dropout or call.mask.kind == "padding"):
        return "varlen_attn has no argument for it"
    return None


def checked(call: Call) -> dict[str, Any]:
    """One call: what was told and what ran."""
    before = predict(call)
    after = try_call(call)
    told, ran = (before.kernel, before.succeeds), (after.kernel, after.error is None)
    agrees = told == ran or (not before.succeeds and after.error is not None)
    return {
        "entry": call.entry,
        "call": call_in_words(call),
        "off": sorted(call.place.disabled),
        "predicted": before.kernel,
        "predicted_error": before.error,
        "ran": after.kernel,
        "error": (after.error or "")[:300],
        "agrees": agrees,
    }


def reason_not_here(entry: str, place: Place) -> str | None:
    """Why nothing can be called through an entry here."""
    for kernel in ENTRIES[entry].kernels:
        package = KERNELS[kernel].package
        if not place.has(package):
            return f"{package} is not installed"
    if place.device == "cpu" and entry not in ("sdpa", "flex"):
        return "it needs a GPU"
    return None


def check(device: str, seconds: float) -> dict[str, Any]:
    """All that can be checked in this time. Entries that compile come last."""
    import torch

    start = time.monotonic()
    place = place_of(device)
    cases: list[dict[str, Any]] = []
    left: list[dict[str, str]] = []
    for entry in sorted(CALLERS, key=lambda name: name == "flex"):
        if reason := reason_not_here(entry, place):
            left.append({"entry": entry, "why": reason})
            continue
        made = 0
        for call in variants(entry, place):
            if reason := skipped(call):
                left.append({"entry": entry, "call": call_in_words(call), "why": reason})
            elif time.monotonic() - start > seconds:
                left.append({"entry": entry, "call": call_in_words(call), "why": f"{seconds:g} s were over"})
            elif call.compiled and made >= COMPILED_CALLS:
                left.append({"entry": entry, "call": call_in_words(call), "why": "only the first calls are compiled"})
            else:
                try:
                    cases.append(checked(call))
                    made += 1
                except NotMade as reason_:
                    left.append({"entry": entry, "call": call_in_words(call), "why": str(reason_)})
    reached = {case["ran"] for case in cases}
    left += [{"kernel": name, "why": "no call here ran it"} for name in KERNELS if name not in reached]
    name = torch.cuda.get_device_name() if device == "cuda" else ""
    return {
        "place": place_in_words(place, name),
        "checked": len(cases),
        "agree": sum(case["agrees"] for case in cases),
        "disagree": [case for case in cases if not case["agrees"]],
        "kernels": sorted(each for each in reached if each),
        "not_checked": left,
        "seconds": round(time.monotonic() - start, 1),
        "cases": cases,
    }


def main() -> int:
    import torch

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    here = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", choices=("cuda", "cpu"), default=here, help="default: the GPU, else the CPU")
    parser.add_argument("--seconds", type=float, default=120.0, help="start no call after this time (default 120)")
    given = parser.parse_args()
    if given.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no GPU that torch can use")
    found = check(given.device, given.seconds)
    print(json.dumps(found, indent=1))
    return 1 if found["disagree"] else 0


if __name__ == "__main__":
    sys.exit(main())
