"""What `trueup attention bench` measured: a table sorted by time, what to choose, and why the rest is not there."""

from __future__ import annotations

import io
from collections.abc import Iterator

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trueup import __version__
from trueup.reports import sarif
from trueup.reports.bars import LABELS, ROW, WIDTH, bars
from trueup.reports.html import template
from trueup.reports.page import Page
from trueup.reports.plain import plain
from trueup.reports.quantities import percent, size
from trueup.reports.terminal import labelled
from trueup.schema.attention_bench import Bench, LeftOut, Row, Timing, in_words


def as_text(found: Bench, *, width: int = 100, colour: bool = False) -> str:
    """The report for a terminal or a log."""
    page = Page(width, colour)
    page.line((f"trueup attention bench: {headline(found)}", "bold"))
    page.blank()
    if found.rows:
        page.block(_table(found, width, colour))
        page.blank()
    for label, text in facts(found):
        labelled(page, label, text, 10)
    if found.left_out:
        page.blank()
        page.line(("Not measured", "bold"))
        for names, reason in reasons(found.left_out):
            labelled(page, "-", f"{names}: {reason}", 2)
    return page.text()


def as_json(found: Bench) -> str:
    """The result as JSON text that ends with a newline; `order` and `choose` are computed from the rows."""
    raw = msgspec.to_builtins(found) | {"order": list(found.order), "choose": choice(found)}
    return msgspec.json.format(msgspec.json.encode(raw), indent=1).decode() + "\n"


def as_sarif(found: Bench) -> str:
    """A log without results: a measurement finds no fault."""
    said = {"level": "note", "message": {"text": plain(f"{headline(found)}; choose {choice(found)}")}}
    return sarif.log_with([], [], {"executionSuccessful": True, "toolExecutionNotifications": [said]})


def as_html(found: Bench) -> str:
    """The same on one self-contained page, with the times as bars."""
    rows = [
        (row.name, _parts(row), row.whole.low, row.whole.high, milliseconds(row.whole.median)) for row in found.rows
    ]
    highest = max((row.whole.high for row in found.rows), default=0.0)
    least = found.roofline.seconds if found.roofline is not None else None
    return template("attention_bench.html.j2").render(
        version=found.trueup_version or __version__,
        verdict=headline(found),
        choice=f"Choose {choice(found)}",
        header=HEADER,
        table=[cells(found, row) for row in found.rows],
        bars=bars(rows, least, milliseconds(highest), highest) if rows else None,
        bar_height=ROW - 8,
        labels=LABELS,
        chart_width=WIDTH,
        backward=found.backward,
        facts=list(facts(found)),
        reasons=list(reasons(found.left_out)),
    )


def headline(found: Bench) -> str:
    """What was measured, in a line."""
    batch, heads, length, head_size = found.query
    keys = found.key[1]
    shared = f", {keys} of keys" if keys != heads else ""
    longer = f", {found.key[2]} keys" if found.key[2] != length else ""
    passes = "forward and backward" if found.backward else "forward only"
    call = f"batch {batch}, {heads} heads{shared}, length {length}{longer}, head size {head_size}, {found.dtype}"
    where = f"{found.device} ({found.threads} threads)" if found.device_type == "cpu" else found.device
    return f"{call}, mask {found.mask}, {passes}; {where}, torch {found.torch}"


def choice(found: Bench) -> str:
    """What to choose, as far as the measurement tells kernels apart."""
    usable = [row for row in found.rows if row.both is not None or not found.backward]
    if not usable:
        return "none: no kernel did all that was asked for" if found.rows else "none: no kernel serves this call here"
    best, *alike = [row for row in found.equals if row in usable]
    said = best.name
    if alike:
        said += f"; {', '.join(row.name for row in alike)} cannot be told from it"
    rest = [row for row in usable if row is not best and row not in alike]
    if rest:
        factor = rest[0].relative
        times = f" {factor.median:.2f} times as long ({factor.low:.2f}-{factor.high:.2f})" if factor else " longer"
        said += f"; the next, {rest[0].name}, takes{times}"
    return said


def facts(found: Bench) -> Iterator[tuple[str, str]]:
    """Label and text of what stands below the table."""
    yield "choose", choice(found)
    roof = found.roofline
    if roof is not None:
        by = "arithmetic" if roof.flops / roof.flops_per_second >= roof.bytes / roof.bytes_per_second else "traffic"
        yield (
            "roofline",
            f"{roof.flops / 1e9:.3g} GFLOP and {size(round(roof.bytes))} take {milliseconds(roof.seconds)} at least, "
            f"by {by}, at the measured {roof.flops_per_second / 1e9:,.0f} GFLOP/s and "
            f"{roof.bytes_per_second / 1e9:,.3g} GB/s",
        )
    yield "error", "largest difference from fp64 as a share of the largest value: output, then gradients"
    yield "memory", f"the most allocated at once beyond the inputs, by {found.memory_by}"
    for row in found.rows:
        if row.without_backward:
            yield "forward", f"{row.name} has no backward pass here: {row.without_backward}"
    compiled = [f"{row.name} {row.compile_seconds:.3g} s" for row in found.rows if row.compile_seconds]
    if compiled:
        yield "compile", f"first calls: {', '.join(compiled)}"
    yield "measured", f"{found.rounds} rounds in turns, median and 95 % interval of it, {found.seconds:.0f} s in all"
    if found.saved_as:
        yield "saved as", found.saved_as


def reasons(left_out: tuple[LeftOut, ...]) -> Iterator[tuple[str, str]]:
    """Names of kernels that share a reason, and the reason."""
    by_reason: dict[str, list[str]] = {}
    for each in left_out:
        name = f"{each.kernel}, {in_words(each.mode)}" if each.mode else each.kernel
        by_reason.setdefault(each.reason, []).append(name)
    for reason, names in by_reason.items():
        yield "; ".join(names), reason


HEADER = ("kernel", "forward", "backward", "both", "roof", "memory", "error")


def cells(found: Bench, row: Row) -> tuple[str, ...]:
    """One row of the table, as HEADER."""
    errors = [value for value in (row.error, row.gradient_error) if value is not None]
    return (
        row.name,
        _timing(row.forward),
        _timing(row.backward),
        _timing(row.both),
        "-" if row.roofline is None else percent(row.roofline),
        "-" if row.peak_bytes is None else size(row.peak_bytes),
        ", ".join(f"{value:.1e}" for value in errors) or "-",
    )


def milliseconds(value: float) -> str:
    """Three digits, in µs, ms or s."""
    for factor, unit in ((1e6, "µs"), (1e3, "ms")):
        if value * factor < 999.5:
            return f"{value * factor:.3g} {unit}"
    return f"{value:.3g} s"


def _timing(timing: Timing | None) -> str:
    if timing is None:
        return "-"
    middle, unit = milliseconds(timing.median).split(" ")
    factor = {"µs": 1e6, "ms": 1e3, "s": 1.0}[unit]
    return f"{middle} {unit} ({_short(timing.low * factor)}-{_short(timing.high * factor)})"


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 999.5 else f"{value:.0f}"


def _parts(row: Row) -> tuple[float, ...]:
    return (row.forward.median, row.whole.median - row.forward.median) if row.both else (row.forward.median,)


def _table(found: Bench, width: int, colour: bool) -> str:
    """Columns that no row fills are left out."""
    rows = [cells(found, row) for row in found.rows]
    shown = [place for place in range(len(HEADER)) if any(row[place] != "-" for row in rows)]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False, header_style="bold")
    for place in shown:
        table.add_column(HEADER[place], no_wrap=not place, overflow="fold")
    for row in rows:
        table.add_row(*(Text(plain(row[place])) for place in shown))
    printed = io.StringIO()
    Console(
        file=printed,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
    ).print(table)
    return printed.getvalue()
