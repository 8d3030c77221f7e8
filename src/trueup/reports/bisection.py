"""What `trueup bisect` found: the answer first, then what it rests on."""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec

from trueup import __version__
from trueup.reports import sarif
from trueup.reports.html import template
from trueup.reports.page import Page
from trueup.reports.plain import plain
from trueup.reports.quantities import count, seconds
from trueup.reports.terminal import labelled
from trueup.schema.bisection import Bisection, Trial
from trueup.schema.record import Record

MARKS = {"fails": ("fails", "error"), "passes": ("passes", "added"), "unresolved": ("?", "note")}
"""Outcome → how it is told, and its style."""
LABEL = 9
ROW = 160
"""Letters of what a run showed, in the table of all of them."""


def as_text(found: Bisection, *, width: int = 100, colour: bool = False, repro: str | None = None) -> str:
    """The report; `repro` is the file that the reproduction was written to."""
    page = Page(width, colour)
    page.line((f"trueup bisect: {headline(found)}", "bold"))
    page.blank()
    for label, text in facts(found, repro):
        labelled(page, label, text, LABEL)
    for place in found.stacks:
        labelled(page, "stack", plain(place), LABEL)
    if found.probes:
        page.blank()
        page.line((f"{count(len(found.probes), 'variant')} in {count(runs(found), 'run')}, {time(found)}", "bold"))
        for trial in found.probes:
            mark, style = MARKS[trial.outcome]
            page.line((f"  {mark:8}", style), f"{described(trial)}")
    for note in found.notes:
        labelled(page, "note", plain(note), LABEL)
    for step in next_steps(found, repro):
        labelled(page, "next", step, LABEL)
    return page.text()


def as_json(found: Bisection) -> str:
    """The result as JSON text that ends with a newline."""
    return msgspec.json.format(msgspec.json.encode(found), indent=1).decode() + "\n"


def as_sarif(found: Bisection) -> str:
    """The findings of the job as it is."""
    return sarif.render(found.record or Record(command=found.command))


def as_html(found: Bisection) -> str:
    """The same as the text on one self-contained page."""
    return template("bisection.html.j2").render(
        version=__version__,
        verdict=headline(found),
        command=shlex.join(found.command),
        facts=facts(found, None),
        stacks=found.stacks,
        trials=[(MARKS[trial.outcome][0], described(trial)) for trial in found.probes],
        notes=found.notes,
        steps=next_steps(found, None),
        repro=found.repro,
    )


def headline(found: Bisection) -> str:
    """The outcome in one line."""
    names = " + ".join(found.minimal)
    if found.verdict == "found":
        order = {True: "; their order matters", False: "", None: ""}[found.order_matters]
        return f"{names} break{'' if len(found.minimal) > 1 else 's'} it{order if len(found.minimal) > 1 else ''}"
    if found.verdict == "not of the layers":
        return "none of its layers breaks it"
    if found.verdict == "interrupted":
        likely = f"; so far most points to {names}" if names else ""
        return f"interrupted{likely}"
    return found.verdict


def facts(found: Bisection, repro: str | None) -> list[tuple[str, str]]:
    """(label, text) lines under the headline."""
    told: list[tuple[str, str]] = []
    if found.signature is not None:
        told.append(("fault", f"{found.signature.kind}: {shortened(found.signature.text)}"))
    if found.layers:
        told.append(("layers", ", ".join(found.layers)))
    if found.control != "not run":
        told.append(("control", f"with {'all of them' if found.layers else 'all layers'} off: {found.control}"))
    if found.minimal and found.verdict == "found":
        told.append(("proof", f"{found.why}{'' if found.one_minimal else ' (not proved)'}"))
        if found.rate is not None and found.rate < 1:
            told.append(("", f"it shows in about {found.rate * 100:.0f} % of the runs"))
    elif found.why:
        told.append(("why", plain(found.why)))
    if found.order:
        told.append(("order", plain(found.order)))
    told += [
        ("within", f"{each.layer}: {each.what} {plain(each.answer)} ({plain(each.evidence)})") for each in found.inside
    ]
    if found.finding is not None:
        told.append(("rule", f"{found.finding.rule}: {plain(found.finding.message)}"))
    if repro is not None and found.repro is not None:
        launch = found.repro.launch.replace("repro.py", shlex.quote(repro))
        told.append(("repro", f"fails with the same signature: {launch}"))
        told.append(("", f"the text for an issue: {Path(repro).with_suffix('.md')}"))
    return told


def next_steps(found: Bisection, repro: str | None) -> list[str]:
    """What to do now."""
    command = shlex.join(found.command) if found.command else "COMMAND"
    if found.verdict in ("interrupted", "not settled"):
        return ["the same command goes on where it stopped"]
    if found.finding is not None:
        return [f"trueup rules {found.finding.rule}", f"trueup fix -- {command}"]
    if found.verdict == "nothing fails":
        return [
            "say what is wrong with --fails-when, for example --fails-when 'loss>0.01' or --fails-when 'slower>1.2'"
        ]
    if found.verdict in ("not of the layers", "not reproduced"):
        return [f"trueup run -- {command}  shows what ran, and why"]
    return []


def described(trial: Trial) -> str:
    """One line on a variant: what was on, how often it ran, how it ended."""
    what = " + ".join(trial.on) or "all off" if trial.stage == "search" else trial.name
    often = f", {trial.failed} of {trial.runs} fail" if trial.runs > 1 else ""
    return f"{what.replace(':none', ' of nothing, to learn its parts')}{often}: {shortened(trial.why, ROW)}"


def shortened(text: str, letters: int = 400) -> str:
    """At most so many letters of a text, which is whole in the JSON."""
    told = plain(text)
    return told if len(told) <= letters else f"{told[: letters - 4].rstrip()} ..."


def runs(found: Bisection) -> int:
    """All runs that were made."""
    return sum(trial.runs for trial in found.probes)


def time(found: Bisection) -> str:
    """The seconds of all runs."""
    return seconds(sum(trial.seconds for trial in found.probes))
