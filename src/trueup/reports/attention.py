"""The answer of `trueup attention explain` in words: the kernel first, then why not the others, then what to change."""

from __future__ import annotations

import msgspec

from trueup.reports.page import Page
from trueup.reports.plain import plain
from trueup.reports.terminal import labelled
from trueup.schema.attention import Candidate, KernelAnswer, Lack

FROM_DEVICE = ("device", "GPU")
"""Constraints that nothing but another device meets."""
MARGIN = 10


def as_json(answer: KernelAnswer) -> str:
    """The whole answer."""
    return msgspec.json.format(msgspec.json.encode(answer), indent=1).decode() + "\n"


def as_text(answer: KernelAnswer, *, width: int = 100, colour: bool = False) -> str:
    """For a terminal or a log file. Sources stand beside what they say, and are never broken."""
    page = Page(width, colour)
    page.paragraph(plain(f"trueup: {verdict(answer)}"), style="bold")
    page.blank()
    for label, text in _facts(answer):
        labelled(page, label, text, MARGIN)
    _print_better(page, answer)
    _print_behind(page, answer)
    _print_others(page, answer)
    if any(lack.evidence == "read" for each in answer.candidates for lack in each.lacks):
        page.blank()
        page.paragraph("unverified: read in that source, not run by the tests of trueup")
    for note in answer.notes:
        page.paragraph(plain(f"assumed: {note}"))
    return page.text()


def verdict(answer: KernelAnswer) -> str:
    """`sdpa-flash takes the call`"""
    if answer.error:
        return f"this call fails: {answer.error}"
    if answer.takes is None:
        return "no kernel runs: " + answer.why
    taken = next((each for each in answer.candidates if each.kernel == answer.takes), None)
    fused = "" if taken is None or taken.fused else ", which writes the whole score matrix"
    return f"{answer.takes} takes the call{fused}"


def _facts(answer: KernelAnswer) -> list[tuple[str, str]]:
    facts = [("call", answer.call), ("through", answer.title)]
    facts += [("becomes", answer.given)] if answer.given else []
    facts += [("on", answer.place), ("why", answer.why)]
    if answer.fallback is not None:
        facts.append(("instead", f"{answer.fallback.actual or 'nothing'}: {answer.fallback.reason}"))
    return facts


def _print_better(page: Page, answer: KernelAnswer) -> None:
    for better in answer.better:
        page.blank()
        through = f"  through {plain(better.through)}" if better.through else ""
        page.line("  better    ", (plain(better.kernel), "bold"), through)
        for change in better.changes:
            labelled(page, "  do", change, MARGIN)


def _print_behind(page: Page, answer: KernelAnswer) -> None:
    """The kernels of the function that is called, each with all that keeps it from the call."""
    page.blank()
    page.line((f"Kernels behind {plain(answer.title)}, as it asks", "bold"))
    for candidate in answer.candidates:
        if candidate.behind:
            _print_candidate(page, candidate)


RANKED = {"generation": "the best first by generation, not measured here", "measurement": "the fastest here first"}


def _print_others(page: Page, answer: KernelAnswer) -> None:
    """Those of other functions: what serves and what does not in full, what is not there by name.

    Of what is not installed, what would serve then is told apart.
    """
    candidates = [each for each in answer.candidates if not each.behind]
    elsewhere = [each for each in candidates if _lacks(each, *FROM_DEVICE)]
    missing = [each for each in candidates if each not in elsewhere and _lacks(each, "package")]
    there = [each for each in candidates if each not in elsewhere and each not in missing]
    if candidates:
        page.blank()
        page.line((f"Kernels behind other functions, {RANKED[answer.ranked_by]}", "bold"))
    for candidate in there:
        _print_candidate(page, candidate)
    serving = [each for each in missing if all(lack.about == "package" for lack in each.lacks)]
    missing = [each for each in missing if each not in serving]
    for label, group in (("if installed", serving), ("not installed", missing), ("other devices", elsewhere)):
        if group:
            labelled(page, label, ", ".join(each.kernel for each in group), 17)


def _lacks(candidate: Candidate, *about: str) -> bool:
    return any(lack.about in about for lack in candidate.lacks)


def _print_candidate(page: Page, candidate: Candidate) -> None:
    if candidate.serves:
        page.line("  ", (plain(candidate.kernel), "bold"), "  serves")
        labelled(page, "  graph", candidate.compile or "unknown", MARGIN)
        return
    page.line("  ", (plain(candidate.kernel), "bold"), "  does not serve")
    for lack in candidate.lacks:
        labelled(page, "  lacks", lack_in_words(lack), MARGIN)
        page.line("    see     ", plain(lack.source) + ("" if lack.evidence == "run" else " (unverified)"))
    for change in candidate.changes:
        labelled(page, "  do", change, MARGIN)


def lack_in_words(lack: Lack) -> str:
    """`mask: needs no mask tensor; given an all-ones mask`"""
    return f"{lack.about}: needs {lack.needs}; given {lack.given}"
