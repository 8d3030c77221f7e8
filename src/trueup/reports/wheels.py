"""The answer of `trueup doctor --for` in words: what to do first, then what was considered and why it was rejected."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.text import Text

from trueup.reports.plain import plain
from trueup.reports.quantities import count
from trueup.reports.terminal import labelled
from trueup.schema.wheels import Candidate, Move, Resolution, Way

MOST_NEAREST = 5
AXES = {
    "python": "for another Python",
    "torch": "for another torch",
    "cuda": "for another CUDA",
    "abi": "of the other string ABI",
    "platform": "for another platform",
    "glibc": "for a newer glibc",
    "gpu": "without code for the GPU",
    "broken": "known not to be what its name says",
}


def print_wheels(console: Console, found: Resolution) -> None:
    """The section of the text report. Lines made to be copied are never broken."""
    console.print(Text(plain(f"{found.asked} for this environment"), style="bold"))
    labelled(console, "answer", found.summary, 10)
    if found.installed:
        labelled(console, "installed", f"{found.package} {found.installed}", 10)
    labelled(console, "here", "; ".join(f"{name} {value}" for name, value in found.here.items()), 10)
    for number, way in enumerate(found.ways, 1):
        _print_way(console, way, number if len(found.ways) > 1 else None)
    console.print()
    for move in found.moves:
        labelled(console, "moves", move_in_words(move), 11)
    if found.candidates or found.verdict not in ("fits", "moves"):
        labelled(console, "considered", considered(found), 11)
    for candidate in nearest(found):
        console.print(Text(f"    {plain(candidate.file)}"), soft_wrap=True)
        for rejection in candidate.rejections:
            console.print(Text(f"      not: {plain(rejection.why)}"), soft_wrap=True)
    for note in found.notes:
        labelled(console, "note", note, 11)
    for source in found.sources:
        console.print(Text(f"  see        {plain(source)}"), soft_wrap=True)
    console.print()


def _print_way(console: Console, way: Way, number: int | None) -> None:
    console.print()
    title = f"{number}. {way.title}" if number else way.title
    console.print(Text(f"  {plain(title)}", style="bold"), soft_wrap=True)
    for tool, line in way.commands.items():
        console.print(Text(f"    {tool:<6} {plain(line)}"), soft_wrap=True)
    for text in way.moves:
        labelled(console, "  moves", text, 9)
    for text in way.missing:
        console.print(Text(f"    lacks  {plain(text)}"), soft_wrap=True)
    if way.minutes is not None:
        low, high = way.minutes
        labelled(console, "  takes", f"{low} to {count(high, 'minute')}, an estimate", 9)
    if way.cost:
        labelled(console, "  cost", way.cost, 9)
    for source in way.sources:
        console.print(Text(f"    see    {plain(source)}"), soft_wrap=True)


def move_in_words(move: Move) -> str:
    """What would be replaced, who asks for it, and what needs it as it is."""
    needed = "; ".join(move.breaks[:MOST_NEAREST])
    more = f" and {len(move.breaks) - MOST_NEAREST} more" if len(move.breaks) > MOST_NEAREST else ""
    breaks = f"; needed as it is by {needed}{more}" if needed else ""
    return f"{move.package} {move.installed} to {move.package}{move.wanted}: {move.because}{breaks}"


def considered(found: Resolution) -> str:
    """How many wheels there were, and how many of them each fact speaks against."""
    if not found.candidates:
        return "no wheels: there are none in the table"
    axes = Counter(axis for each in found.candidates for axis in {rejection.axis for rejection in each.rejections})
    against = ", ".join(f"{number} {AXES[axis]}" for axis, number in axes.most_common())
    older = f" ({found.superseded} more have a newer release of the same build)" if found.superseded else ""
    listed = "; --format json lists them all" if len(found.candidates) > 1 else ""
    return f"{count(len(found.candidates), 'wheel')}{older}: {against or 'nothing speaks against any'}{listed}"


def nearest(found: Resolution) -> list[Candidate]:
    """Those that were rejected for the fewest reasons."""
    return [each for each in found.candidates if each.rejections][:MOST_NEAREST]
