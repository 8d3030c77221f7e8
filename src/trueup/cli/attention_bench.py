"""`trueup attention bench`: measure every kernel that serves a call on this device."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trueup.cli.exits import FINDINGS
from trueup.cli.output import FORMATS, is_coloured, json_option, printed_on, save, width_of, write
from trueup.cli.parameters import output_file, seconds

if TYPE_CHECKING:
    from trueup.schema.attention_bench import Bench

DTYPES = ("bf16", "fp16", "fp32", "fp64")


@click.command(short_help="Measure every attention kernel that serves a call on this device.")
@click.option("--shape", required=True, metavar="B,H,L,D", help="Batch, heads, length and head size: 4,32,2048,128.")
@click.option(
    "--kv-heads", type=click.IntRange(min=1), metavar="N", help="Heads of keys and values.  [default: as many]"
)
@click.option("--kv-length", type=click.IntRange(min=1), metavar="N", help="Length of keys and values.")
@click.option("--dtype", type=click.Choice(DTYPES), default="bf16", show_default=True, help="Of all inputs.")
@click.option(
    "--mask",
    default="causal",
    show_default=True,
    metavar="KIND",
    help="none, causal, causal-tensor, all-ones, padding, float, window=TOKENS or document=NUMBER (of a row).",
)
@click.option("--backward/--forward-only", default=True, show_default=True, help="Measure the backward pass as well.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="Where.  [default: cuda where there is one]")
@click.option("--kernel", "kernels", multiple=True, metavar="NAME", help="Only this kernel; may be repeated.")
@click.option("--mode", "modes", multiple=True, metavar="MODE", help="Modes of torch.compile; `none` compiles nothing.")
@click.option("--repeat", type=click.IntRange(min=1), metavar="N", help="Rounds.  [default: as the time allows]")
@click.option(
    "--budget", type=seconds, default="60", show_default=True, metavar="S", help="Begin nothing after S seconds."
)
@click.option(
    "--save",
    "saved",
    type=output_file,
    is_flag=False,
    flag_value=".trueup/attention.json",
    metavar="[FILE]",
    help="Keep the order of the kernels, which a fallback goes by.  [default FILE: .trueup/attention.json]",
)
@click.option("--report", "report_file", type=output_file, metavar="FILE.html", help="Write the HTML report here, too.")
@click.option("--quiet", is_flag=True, help="Say nothing while it measures.")
@json_option()
@click.option(
    "--format",
    "output",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="What is printed.",
)
def bench(
    shape: str,
    kv_heads: int | None,
    kv_length: int | None,
    dtype: str,
    mask: str,
    backward: bool,
    device: str | None,
    kernels: tuple[str, ...],
    modes: tuple[str, ...],
    repeat: int | None,
    budget: float,
    saved: Path | None,
    report_file: Path | None,
    quiet: bool,
    json_file: Path | None,
    output: str,
) -> int:
    """Time, memory and error of every attention kernel and compile mode that serves a call on this device.

    \b
      trueup attention bench --shape 4,32,2048,128 --kv-heads 8 --dtype bf16
      trueup attention bench --shape 1,8,1024,64 --mask window=256 --forward-only --save

    Kernels take turns, so that noise favours none; the fastest stands first, and those that cannot be told from it are
    named. It runs in the environment that trueup is installed in, with its torch.

    \b
    Exit codes: 0 measured, 1 no kernel serves the call, 2 wrong usage, 3 trueup itself failed
    """
    from trueup.attention.bench.case import CaseError, case_of

    try:
        case = case_of(shape, dtype=dtype, mask=mask, kv_heads=kv_heads, kv_length=kv_length, backward=backward)
    except CaseError as error:
        raise click.UsageError(str(error)) from error
    check_torch()
    if report_file is not None and report_file.suffix not in (".html", ".htm"):
        raise click.UsageError(f"--report takes a file that ends in .html, got {str(report_file)!r}")

    from trueup.attention.bench.running import NoDevice
    from trueup.attention.bench.running import bench as measured
    from trueup.attention.bench.saved import save as save_order

    def say(text: str) -> None:
        if not quiet:
            click.echo(f"trueup: {text}", err=True)

    try:
        found = measured(
            case,
            device=device,
            budget=budget,
            repeat=repeat,
            modes=tuple(mode for mode in modes if mode != "none") if modes else None,
            kernels=kernels,
            say=say,
        )
    except NoDevice as error:
        raise click.UsageError(str(error)) from error
    if saved is not None and found.order:
        import msgspec

        try:
            found = msgspec.structs.replace(found, saved_as=f"{saved}: {save_order(found, saved)}")
        except ValueError as error:
            raise click.UsageError(f"--save: {error}") from error
    write(printed_on(), presentation(found, output))
    if json_file is not None:
        save(presentation(found, "json"), json_file)
    if report_file is not None:
        save(presentation(found, "html"), report_file)
    return 0 if found.rows else FINDINGS


def check_torch() -> None:
    """A usage error that names the interpreter to use, where the one that runs trueup has no torch."""
    from importlib.util import find_spec

    if find_spec("torch") is not None:
        return
    from trueup.environment.host import Host
    from trueup.environment.target import TargetError, target_of

    try:
        python = target_of(Host()).executable
    except TargetError:
        python = None
    other = str(python) if python is not None and str(python) != sys.executable else "the interpreter that trains"
    raise click.UsageError(
        f"torch is not installed for {sys.executable}, which runs trueup. Measure with the environment that trains: "
        f"install trueup there and run {other} -m trueup attention bench"
    )


def presentation(found: Bench, shape: str) -> str:
    """The measurement in one of FORMATS."""
    from trueup.reports import attention_bench as report

    if shape == "text":
        return report.as_text(found, width=width_of(printed_on()), colour=is_coloured(printed_on()))
    return {"json": report.as_json, "sarif": report.as_sarif, "html": report.as_html}[shape](found)
