"""The answer to one call: the kernel it takes, what keeps the others from it, and the way to a better one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trueup.attention.call import Call, Mask
from trueup.attention.constraints import Change, Obstacle
from trueup.attention.entries import ENTRIES, Entry
from trueup.attention.kernel import Kernel
from trueup.attention.knowledge import KERNELS
from trueup.attention.order import next_best, ranking
from trueup.attention.predict import Prediction, predict
from trueup.attention.ways import way_to
from trueup.attention.words import call_in_words, place_in_words
from trueup.schema.attention import Better, Candidate, Fallback, KernelAnswer, Lack

MOST_BETTER = 3
MODELS = ("hf-", "flash_attention_", "flex_attention", "kernels-community/")
"""How the names of entries begin that are an `attn_implementation` of a decoder."""


def explain(
    call: Call, *, gpu: str = "", notes: Sequence[str] = (), measured: Sequence[str] | None = None, version: str = ""
) -> KernelAnswer:
    """All about `call`. `gpu`: its name; `measured`: kernels from the fastest on, where somebody has measured."""
    entry = ENTRIES[call.entry]
    found = predict(call)
    order = ranking(call.place, measured)
    others = [name for name in order if name not in found.order]
    asked = _as_asked(call)
    others += [name for name in KERNELS if name not in order and name not in found.order]
    candidates = [_candidate(KERNELS[name], found.given, behind=True) for name in found.order]
    candidates += [_candidate(KERNELS[name], _through_its_entry(name, call), behind=False) for name in others]
    given = call_in_words(found.given)
    return KernelAnswer(
        entry=entry.name,
        title=entry.title,
        call=call_in_words(call),
        given="" if given == call_in_words(call) else given,
        place=place_in_words(call.place, gpu),
        takes=found.kernel if found.succeeds else None,
        why=found.why,
        error=found.error,
        order=found.order,
        ranked_by="generation" if measured is None else "measurement",
        candidates=tuple(candidates),
        better=tuple(_better(found, call, order))[:MOST_BETTER],
        fallback=_fallback(entry, found, asked, order),
        notes=tuple(notes),
        trueup_version=version or None,
    )


def _as_asked(call: Call) -> Call:
    """For kernels behind other functions: what is to be computed, which for a decoder is causal."""
    if _is_of_model(call) and call.mask.kind == "none":
        return replace(call, mask=Mask(kind="causal"))
    return call


def _is_of_model(call: Call) -> bool:
    return call.entry.startswith(MODELS)


def _entry_of(name: str, call: Call) -> Entry | None:
    """What leads to a kernel: for a model another `attn_implementation`, else a function; None where nothing does."""
    wanted = _is_of_model(call)
    leads = (entry for entry in ENTRIES.values() if entry.name.startswith(MODELS) == wanted)
    return next((entry for entry in leads if name in entry.kernels), None)


def _through_its_entry(name: str, call: Call) -> Call:
    """The call as a kernel behind another function is given it."""
    entry = _entry_of(name, call) if _is_of_model(call) else None
    return _as_asked(call) if entry is None else entry.given(call)


def _candidate(kernel: Kernel, call: Call, *, behind: bool) -> Candidate:
    obstacles = kernel.obstacles(call)
    way = way_to(kernel, call)
    compiled = kernel.in_graph(call)
    words = "" if compiled is None else compiled.in_graph + (f": {compiled.words}" if compiled.words else "")
    return Candidate(
        kernel=kernel.name,
        title=kernel.title,
        fused=kernel.fused,
        serves=not obstacles,
        behind=behind,
        lacks=tuple(map(_lack, obstacles)),
        changes=tuple(change.words for change in way or ()),
        compile=words,
    )


def _lack(obstacle: Obstacle) -> Lack:
    constraint = obstacle.constraint
    source = constraint.source
    return Lack(
        about=constraint.about,
        needs=constraint.needs,
        given=obstacle.given,
        source=source.where,
        of=source.of,
        evidence=source.evidence,
        raises=constraint.raises,
    )


def _better(found: Prediction, call: Call, order: Sequence[str]) -> list[Better]:
    """Kernels before the one that is taken, those behind the same function first, with the way to each.

    Of another function the best is named. For a call that fails all kernels are before: then those that are not fused
    are left out where others help.
    """
    taken = found.kernel if found.succeeds else None
    before = order[: order.index(taken)] if taken in order else order
    ways = []
    for name in sorted(before, key=lambda name: (name not in found.order, order.index(name))):
        behind = name in found.order
        entry = None if behind else _entry_of(name, call)
        way = way_to(KERNELS[name], found.given if behind else _through_its_entry(name, call))
        if way is None or _installs(way) or not (behind or entry):
            continue
        words = [change.words for change in way]
        if behind and not _would_be_taken(name, found, way):
            words.append(f"sdpa_kernel([{_backend(name)}]) around it")
        ways.append(Better(kernel=name, changes=tuple(words), through="" if entry is None else entry.title))
    first = {each.through: each.kernel for each in reversed(ways) if each.through}
    ways = [each for each in ways if not each.through or first[each.through] == each.kernel]
    fused = [each for each in ways if KERNELS[each.kernel].fused]
    return fused if fused and taken is None else ways


def _installs(way: Sequence[Change]) -> bool:
    """What is not installed is told beside the kernel, not as the next step."""
    return any("pip install" in change.words for change in way)


def _would_be_taken(name: str, found: Prediction, way: Sequence[Change]) -> bool:
    call = found.given
    for change in way:
        call = change.apply(call)
    first = next((each for each in found.order if not KERNELS[each].is_passed_over(call)), None)
    return first == name


BACKENDS = {
    "sdpa-flash": "SDPBackend.FLASH_ATTENTION",
    "sdpa-flash-cpu": "SDPBackend.FLASH_ATTENTION",
    "sdpa-cudnn": "SDPBackend.CUDNN_ATTENTION",
    "sdpa-mem-efficient": "SDPBackend.EFFICIENT_ATTENTION",
    "sdpa-math": "SDPBackend.MATH",
}


def _backend(name: str) -> str:
    return BACKENDS.get(name, name)


def _fallback(entry: Entry, found: Prediction, asked: Call, order: Sequence[str]) -> Fallback | None:
    """For an entry with one kernel that cannot serve."""
    if found.succeeds or len(found.order) > 1:
        return None
    choice = next_best(asked, None, order, requested=found.order[0])
    return Fallback(requested=choice.requested, actual=choice.actual, reason=choice.reason, changes=choice.changes)
