"""What `trueup verify` showed: the verdict in a line, both stacks, numerics, speed, memory, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import msgspec

from trueup import __version__
from trueup.reports import sarif
from trueup.reports.chart import HEIGHT, WIDTH, Chart, chart
from trueup.reports.html import template
from trueup.reports.page import Page
from trueup.reports.plain import plain
from trueup.reports.quantities import count, seconds, size
from trueup.reports.terminal import labelled
from trueup.schema.record import Record
from trueup.schema.verification import PASSED, Verification

RULE = "trueup/verify"
SIDES = ("control", "candidate", "reference")


def as_text(
    verification: Verification,
    *,
    width: int = 100,
    colour: bool = False,
    options: str = "",
    report: str | None = None,
) -> str:
    """The report. `options` made the candidate of the command; `report` is the file with both loss curves."""
    page = Page(width, colour)
    page.line((f"trueup verify: {headline(verification)}", "bold"))
    page.blank()
    for label, text in facts(verification):
        labelled(page, label, text, 15)
    page.blank()
    for label, text in next_steps(verification, options):
        page.line(f"{label.ljust(8)}{plain(text)}")
    if report is not None:
        page.line(f"report  {report}")
    for note in verification.notes:
        page.line(f"note    {plain(note)}")
    return page.text()


def as_json(verification: Verification) -> str:
    """The result as JSON text that ends with a newline."""
    return msgspec.json.format(msgspec.json.encode(verification), indent=1).decode() + "\n"


def as_sarif(verification: Verification) -> str:
    """One result where the candidate is not shown to compute what the control computes; none where it is."""
    said = plain(headline(verification))
    title = "The candidate is not shown to compute what the control computes"
    result = {
        "ruleId": RULE,
        "ruleIndex": 0,
        "level": "warning" if verification.verdict == "not compared" else "error",
        "message": {"text": "\n".join([said, *(plain(f"{label}: {text}") for label, text in facts(verification))])},
    }
    passed = verification.verdict in PASSED
    invocation: dict[str, Any] = {
        "executionSuccessful": True,
        "commandLine": plain(shlex.join(verification.command)),
        "toolExecutionNotifications": [
            {"level": "note", "message": {"text": plain(note)}} for note in (said, *verification.notes)
        ],
    }
    rules = [] if passed else [{"id": RULE, "shortDescription": {"text": title}}]
    return sarif.log_with(rules, [] if passed else [result], invocation)


def as_html(verification: Verification) -> str:
    """The same as the text on one self-contained page, with the loss curves of both."""
    return template("verification.html.j2").render(
        version=__version__,
        verdict=headline(verification),
        command=shlex.join(verification.command),
        facts=list(facts(verification)),
        steps=verification.numerics.steps,
        charts=charts(verification),
        chart_width=WIDTH,
        chart_height=HEIGHT,
        switched=verification.switched,
        notes=verification.notes,
    )


def headline(verification: Verification) -> str:
    """The outcome in one line."""
    parts = [f"{verification.verdict}: {verification.why}"]
    if verification.verdict in PASSED and verification.effect != "not measured":
        parts.append(_speed_in_words(verification))
    return plain("; ".join(parts))


def facts(verification: Verification) -> Iterator[tuple[str, str]]:
    """Label and text of what was run and measured."""
    yield "control", verification.control
    yield "candidate", verification.candidate
    if verification.reference is not None:
        yield "reference", verification.reference
    for layer in verification.switched:
        state = "" if layer.state == "as asked" else f" ({layer.state})"
        yield layer.layer, f"control: {layer.control}{state}; candidate: {layer.candidate}"
    yield "numerics", f"{verification.numerics.verdict}: {verification.numerics.why}"
    speed = verification.speed
    if speed.before_s is not None and speed.after_s is not None:
        times = f"a late step takes {seconds(speed.after_s)}, the control's {seconds(speed.before_s)}"
        yield "speed", f"{times}: {_speed_in_words(verification)}"
    else:
        yield "speed", "not measured"
    memory = verification.memory
    if memory.control_bytes is not None and memory.candidate_bytes is not None:
        yield (
            "memory",
            f"peak {size(memory.candidate_bytes)}, the control's {size(memory.control_bytes)} ({memory.source})",
        )
    sides = (verification.controls, verification.candidates, verification.references, verification.same_random)
    yield "runs", count(sum(map(len, sides)), "run")


def next_steps(verification: Verification, options: str = "") -> Iterator[tuple[str, str]]:
    """(label, line): the command to type next, or what to change."""
    command = f"-- {shlex.join(verification.command)}"
    with_options = f"{options} {command}" if options else command
    if verification.verdict == "verified":
        yield "next", f"trueup run {with_options}"
    elif verification.verdict == "within noise":
        yield "next", "set the job's seeds (torch.manual_seed, the generator of its data), then verify again"
    elif verification.verdict == "different":
        on = next((layer for layer in verification.switched if layer.on_in_candidate), None)
        if on is not None and f"{on.layer}=" not in options:
            yield "next", f"trueup verify --set {on.layer}={on.asked} {with_options}"
            yield "", f"verified then? {on.layer} is what changes the results"
        elif options:
            yield "next", f"trueup verify {command}"
            yield "", f"verified then? it is {options} that changes the results"
        else:
            yield "next", f"trueup run {command}"
    elif verification.verdict == "failed" and verification.candidates:
        yield "next", f"trueup fix {command}"
    elif verification.numerics.verdict == "not compared" and verification.verdict == "not compared":
        yield "next", "let each step call backward() on its loss, one number: that is the loss which is compared"
    else:
        yield "next", f"trueup verify --against VARIANT.toml {with_options}"
        yield "", 'a control of your own, as in: layers = {compile = "off"}'


def charts(verification: Verification) -> list[tuple[str, Chart]]:
    """(side, its loss curve), all on one scale; the control's first, so that the candidate's lies upon it."""
    shown = verification.same_random or verification.candidates
    runs: list[tuple[str, Record]] = [
        (side, records[0])
        for side, records in zip(SIDES, (verification.controls, shown, verification.references), strict=True)
        if records
    ]
    every = [loss for _, run in runs for loss in run.steps.losses]
    found = ((side, chart("Loss", run.steps.losses, run.steps.stride, beside=every)) for side, run in runs)
    return [(side, curve) for side, curve in found if curve is not None]


def _speed_in_words(verification: Verification) -> str:
    speed = verification.speed
    if speed.ratio is None or speed.low is None or speed.high is None:
        return "too few steps to tell a speed"
    interval = f"95 % interval {speed.low:.2f} to {speed.high:.2f}"
    if verification.effect == "no difference shown":
        return f"no difference in speed shown ({speed.ratio:.2f} times as fast, {interval})"
    slower = "slower, " if verification.effect == "slower" else ""
    return f"{slower}{speed.ratio:.2f} times as fast ({interval})"
