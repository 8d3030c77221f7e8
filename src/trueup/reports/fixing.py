"""What `trueup fix` did: before and after in a line each, what was applied and dropped, the proof, the recipe."""

from __future__ import annotations

import shlex

import msgspec

from trueup import __version__
from trueup.reports import sarif
from trueup.reports.html import template
from trueup.reports.page import Page
from trueup.reports.plain import plain, readable
from trueup.reports.quantities import count, seconds, size
from trueup.reports.terminal import labelled
from trueup.reports.verdict import verdict
from trueup.schema.fixing import Fixing, Proof, Speed, Step

DIFF_STYLES = {"+": "added", "-": "removed", "@": "note"}
"""First character of a line of a diff → its style."""


def as_text(fixing: Fixing, *, width: int = 100, colour: bool = False, variant: str | None = None) -> str:
    """The report; `variant` is the file that the variant was written to."""
    page = Page(width, colour)
    page.line((f"trueup fix: {headline(fixing)}", "bold"))
    page.blank()
    labelled(page, "was", verdict(fixing.before), 9)
    if fixing.after is not None:
        labelled(page, "is", verdict(fixing.after), 9)
    for label, text in facts(fixing):
        labelled(page, label, text, 9)
    _print_recipe(page, fixing)
    if fixing.variant is not None and variant is not None:
        page.blank()
        page.line(f"variant {variant}; run it: trueup run --with {shlex.quote(variant)} -- COMMAND")
    for note in fixing.notes:
        page.line(f"note    {plain(note)}")
    return page.text()


def as_json(fixing: Fixing) -> str:
    """The result as JSON text that ends with a newline."""
    return msgspec.json.format(msgspec.json.encode(fixing), indent=1).decode() + "\n"


def as_sarif(fixing: Fixing) -> str:
    """The findings that stand after the repair."""
    return sarif.render(fixing.after or fixing.before)


def as_html(fixing: Fixing) -> str:
    """The same as the text on one self-contained page."""
    return template("fixing.html.j2").render(
        version=__version__,
        verdict=headline(fixing),
        before=verdict(fixing.before),
        after=verdict(fixing.after) if fixing.after is not None else None,
        facts=facts(fixing),
        recipe=fixing.recipe,
        notes=fixing.notes,
    )


def headline(fixing: Fixing) -> str:
    """The outcome in one line."""
    if fixing.applied and fixing.proof is not None:
        done = f"{count(len(fixing.applied), 'remedy', 'remedies')} applied"
        parts = [done if fixing.proof.findings_gone else f"{done}, not all is well"]
        parts += [text for text in (_faster(fixing.proof.speed), _same(fixing.proof)) if text]
        return "; ".join(parts)
    if fixing.dropped:
        return f"nothing applied: {count(len(fixing.dropped), 'remedy', 'remedies')} tried, none proved itself"
    if any(finding.severity != "note" for finding in fixing.before.findings):
        return "nothing applied: no remedy for these findings can be applied from outside; the recipe says what to do"
    if fixing.before.exit.reason == "timeout":
        return "nothing applied: --timeout ended the job, and nothing was found until then"
    if fixing.before.exit.code:
        return "nothing applied: the job fails, and no known class fits; what it printed is with its record"
    if not fixing.before.ranks:
        return "nothing observed, so nothing to fix"
    return "nothing to fix" if fixing.before.steps.count else "no optimizer step was made, so nothing to fix was seen"


def facts(fixing: Fixing) -> list[tuple[str, str]]:
    """Label and text of what was applied, dropped and measured."""
    told = [("install", each) for each in fixing.installed]
    told += [("applied", f"{each.remedy}, for {each.rule}") for each in fixing.applied]
    told += [("dropped", f"{each.remedy}, for {each.rule}: {each.why}") for each in fixing.dropped]
    proof = fixing.proof
    if proof is not None:
        told.append(("numerics", f"{proof.numerics.verdict}: {proof.numerics.why}"))
        if proof.speed.before_s is not None and proof.speed.after_s is not None:
            was, now = seconds(proof.speed.before_s), seconds(proof.speed.after_s)
            told.append(("speed", f"a late step took {was} and takes {now}{_interval(proof.speed)}"))
        if proof.peak_before_bytes is not None and proof.peak_after_bytes is not None:
            told.append(("memory", f"peak {size(proof.peak_before_bytes)}, now {size(proof.peak_after_bytes)}"))
    told.append(("probes", count(fixing.probes, "run")))
    return told


def _faster(speed: Speed) -> str | None:
    if speed.ratio is None or speed.low is None or speed.high is None or speed.low <= 1 <= speed.high:
        return None
    return f"{speed.ratio:.2f} times as fast" if speed.ratio > 1 else f"slower: {speed.ratio:.2f} times as fast"


def _interval(speed: Speed) -> str:
    if speed.ratio is None:
        return ""
    if speed.low is None or speed.high is None:
        return f": {speed.ratio:.2f} times as fast (too few steps for an interval)"
    return f": {speed.ratio:.2f} times as fast (95 % interval {speed.low:.2f} to {speed.high:.2f})"


def _same(proof: Proof) -> str | None:
    told = {
        "equal": "same losses",
        "within noise": "losses within the job's own noise",
        "corrected": "results corrected",
    }
    return told.get(proof.numerics.verdict)


def _print_recipe(page: Page, fixing: Fixing) -> None:
    if not fixing.recipe:
        return
    page.blank()
    page.line(("To make it permanent" if fixing.applied else "To do", "bold"))
    for number, step in enumerate(fixing.recipe, 1):
        places = f"  ({', '.join(map(plain, step.at))})" if step.at else ""
        by_hand = "" if step.automatic else "by hand: "
        page.line(f"  {number}. {by_hand}", (plain(step.how), "bold"), places)
        page.line(f"     for {step.rule}")
        _print_change(page, step)


def _print_change(page: Page, step: Step) -> None:
    """What the step changes, to be read and copied."""
    if step.command is not None:
        page.line("     ", (plain(step.command), "bold"))
    if step.install is not None:
        page.line("     ", (plain(step.install), "bold"), "  (run by trueup fix --yes)")
    for edit in step.edits:
        for line in edit.diff.splitlines():
            page.line("     ", (readable(line), DIFF_STYLES.get(line[:1], "")))
