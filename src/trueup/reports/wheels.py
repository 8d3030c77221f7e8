"""The answer of `trueup doctor --for` in words: what to do first, then what was considered and why it was rejected."""

from __future__ import annotations

from collections import Counter

from trueup.reports.page import Page
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


def print_wheels(page: Page, found: Resolution) -> None:
    """The section of the text report. Lines made to be copied are never broken."""
    page.line((plain(f"{found.asked} for this environment"), "bold"))
    labelled(page, "answer", found.summary, 10)
    if found.installed:
        labelled(page, "installed", f"{found.package} {found.installed}", 10)
    labelled(page, "here", "; ".join(f"{name} {value}" for name, value in found.here.items()), 10)
    for number, way in enumerate(found.ways, 1):
        _print_way(page, way, number if len(found.ways) > 1 else None)
    page.blank()
    for move in found.moves:
        labelled(page, "moves", move_in_words(move), 11)
    if found.candidates or found.verdict not in ("fits", "moves"):
        labelled(page, "considered", considered(found), 11)
    for candidate in nearest(found):
        page.line(f"    {plain(candidate.file)}")
        for rejection in candidate.rejections:
            page.line(f"      not: {plain(rejection.why)}")
    for note in found.notes:
        labelled(page, "note", note, 11)
    for source in found.sources:
        page.line(f"  see        {plain(source)}")
    page.blank()


def _print_way(page: Page, way: Way, number: int | None) -> None:
    page.blank()
    title = f"{number}. {way.title}" if number else way.title
    page.line((f"  {plain(title)}", "bold"))
    for tool, line in way.commands.items():
        page.line(f"    {tool:<6} {plain(line)}")
    for text in way.moves:
        labelled(page, "  moves", text, 9)
    for text in way.missing:
        page.line(f"    lacks  {plain(text)}")
    if way.minutes is not None:
        low, high = way.minutes
        labelled(page, "  takes", f"{low} to {count(high, 'minute')}, an estimate", 9)
    if way.cost:
        labelled(page, "  cost", way.cost, 9)
    for source in way.sources:
        page.line(f"    see    {plain(source)}")


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
