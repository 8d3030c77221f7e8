"""Ranks, steps, memory, environment and notes of a record, arranged into labelled lines."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from trueup.reports.evidence import numbers_in_words, ranks_in_words
from trueup.reports.excerpt import first_line
from trueup.reports.quantities import count, percent, seconds, size
from trueup.reports.verdict import compile_wanted
from trueup.schema.record import Leakage, Memory, Note, Rank, Record


def of(record: Record) -> Iterator[tuple[str, str]]:
    """(label, text) lines that follow the findings in every report."""
    yield from (("ranks", line) for line in ranks_that_ended_alike(record.ranks))
    if record.steps.count:
        yield "steps", steps_in_words(record)
        yield "sampled", sampled_in_words(record)
    if record.actual.attention.leakage is not None:
        yield "packing", leakage_in_words(record.actual.attention.leakage)
    for each in record.actual.attention.fallbacks:
        yield "fallback", f"{each.actual} in place of {each.requested}: {each.reason}"
    if record.actual.compile.seconds:
        yield "compile", f"{seconds(record.actual.compile.seconds)} spent compiling"
    if record.actual.memory.peak_bytes is not None:
        yield "memory", memory_in_words(record.actual.memory)
    if record.duration_s is not None:
        yield "took", f"{seconds(record.duration_s)} from launch to exit"
    environment = environment_in_words(record)
    if environment:
        yield "with", environment


def leakage_in_words(found: Leakage) -> str:
    """What `--probe packing` measured."""
    if found.change is None:
        return f"{found.verdict}: {found.reason}" if found.reason else found.verdict
    where = "logits" if found.measured_at == "logits" else found.measured_at
    batch = (
        f"{count(found.documents or 0, 'document')} in {count(found.rows or 0, 'row')}, told apart by {found.seen_in}"
    )
    if found.verdict == "none":
        return f"documents do not change later ones of their row: exactly 0.0 in the {where} ({batch}; {found.dtype})"
    told = f"{found.change:.3g} of {found.scale:.3g} in the {where} ({batch}; {found.dtype})"
    moved = f"document {found.source} of row {found.row} changes document {found.target} by {told}"
    if found.verdict == "rounding":
        return f"{moved}, no more than rounding"
    others = found.other_rows or 0.0
    return f"{moved}; other rows change by {others:.3g}" if others else moved


def ranks_that_ended_alike(ranks: tuple[Rank, ...]) -> list[str]:
    """One line for all ranks of one fate, so that a thousand ranks stay readable."""
    alike: dict[tuple[object, ...], list[Rank]] = {}
    for rank in ranks:
        steps = None if rank.error else rank.steps  # ranks that fail alike rarely do so in the same step
        alike.setdefault((ended_in_words(rank), rank.trained, rank.process_group, steps), []).append(rank)
    lines = []
    for members in alike.values():
        fate = fate_in_words(members)
        places = sorted({f"{rank.host}:{rank.pid}" for rank in members if rank.host})
        where = f", {places[0]}" if len(places) == 1 else ""
        lines.append(f"{numbers_in_words([rank.rank for rank in members])}: {fate}{where}")
    return lines


def fate_in_words(alike: list[Rank]) -> str:
    """How ranks of one fate ended and what they did."""
    one, fewest, most = alike[0], min(rank.steps for rank in alike), max(rank.steps for rank in alike)
    did = f"{fewest} to {count(most, 'step')}" if fewest < most else count(most, "step")
    facts = [ended_in_words(one), did if one.trained else "did not train"]
    return ", ".join([*facts, one.process_group] if one.process_group else facts)


def ended_in_words(rank: Rank) -> str:
    """How one rank ended; of an exception the first line and the user's line under which it came."""
    ended = rank.exit
    if rank.error:
        message, _, last = rank.error.strip().rpartition("\n")
        if message and last.startswith("at "):
            return f"failed: {first_line(message)} {last}"
        return f"failed: {first_line(rank.error)}"
    if ended.signal:
        return f"killed by {ended.signal}"
    if ended.code:
        return f"exit code {ended.code}"
    return ended.reason or ("finished" if ended.code == 0 else "no end seen")


def memory_in_words(memory: Memory) -> str:
    """The highest peak, how it was measured, and the ranks' own where they are few."""
    parts = [f"{size(memory.peak_bytes or 0)} at the peak", memory.source or "source not known"]
    if 1 < len(memory.per_rank) <= 8:
        parts += [f"rank {rank} {size(peak)}" for rank, peak in memory.per_rank.items()]
    elif len(memory.per_rank) > 1:
        parts.append(f"lowest rank {size(min(memory.per_rank.values()))}")
    return ", ".join(parts)


def steps_in_words(record: Record) -> str:
    """Number, time and loss of the steps; which rank's loss it is where there are several."""
    steps = record.steps
    parts = [count(steps.count, "step")]
    if steps.seconds:
        low, high = min(steps.seconds), max(steps.seconds)
        parts.append(f"median {seconds(statistics.median(steps.seconds))} ({seconds(low)} to {seconds(high)})")
    losses = [loss for loss in steps.losses if loss is not None]
    if losses:
        trained = [rank.rank for rank in record.ranks if rank.trained]
        whose = f" of rank {min(trained)}" if len(trained) > 1 else ""
        parts.append(f"loss{whose} {losses[0]:.4g} → {losses[-1]:.4g}")
    else:
        parts.append("loss not observed")
    if steps.stride > 1:
        parts.append(f"one step in {steps.stride} kept")
    return ", ".join(parts)


def environment_in_words(record: Record) -> str:
    """Versions that decide how the stack behaves."""
    environment = record.environment
    packages = environment.get("packages") or {}
    versions = {"python": environment.get("python"), "torch": environment.get("torch"), **packages}
    return ", ".join(f"{name} {version}" for name, version in versions.items() if version)


def notes(record: Record) -> list[str]:
    """What is missing from the record, each in one sentence."""
    lines = [note_in_words(note) for note in record.notes]
    if record.unknown_fields:
        were = "was" if record.unknown_fields == 1 else "were"
        lines.append(f"{count(record.unknown_fields, 'field')} of a newer trueup {were} not understood")
    return lines


def note_in_words(note: Note) -> str:
    """A note with the ranks it is about."""
    return note.what + ranks_in_words(note.ranks)


def sampled_in_words(record: Record) -> str:
    """Which steps were sampled, and what the last one showed."""
    last = record.samples[-1] if record.samples else None
    if last is None:
        return "no step was sampled"
    share = "" if last.fraction is None or not compile_wanted(record) else f", {percent(last.fraction)} compiled"
    return f"{count(len(record.samples), 'step')}, the last of them step {last.step}{share}"
