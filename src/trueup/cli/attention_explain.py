"""`trueup attention explain`: which kernels can serve a call, which one it takes, and why the others cannot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trueup.cli.exits import FINDINGS
from trueup.cli.output import is_coloured, json_option, printed_on, save, width_of, write

if TYPE_CHECKING:
    from trueup.attention.call import Call, Dtype, Mask
    from trueup.attention.here import Here
    from trueup.schema.attention import KernelAnswer

DTYPES: dict[str, Dtype] = {
    "bf16": "bf16", "bfloat16": "bf16", "fp16": "fp16", "float16": "fp16", "half": "fp16", "fp32": "fp32",
    "float32": "fp32", "float": "fp32", "fp64": "fp64", "float64": "fp64", "double": "fp64", "fp8": "fp8",
    "float8": "fp8", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8",
}  # fmt: skip
MASKS = "none, causal, causal-tensor, all-ones, padding, document, float or window=N"
SWITCHES = ("flash", "efficient", "cudnn", "math")
LARGEST = 1 << 40
"""Of one dimension."""


def shape(value: str) -> tuple[int, ...]:
    """`2,32,4096,128`, also as Python prints it: `torch.Size([2, 32, 4096, 128])`"""
    try:
        sizes = tuple(
            int(part) for part in value.removeprefix("torch.Size").strip("()[] ").replace("x", ",").split(",")
        )
    except ValueError:
        raise click.BadParameter(f"{value} is no shape; give numbers with commas: 2,32,4096,128") from None
    if not 1 <= len(sizes) <= 6 or not all(0 <= size <= LARGEST for size in sizes):
        raise click.BadParameter(f"{value} is no shape of 1 to 6 dimensions; give batch, heads, length, head size")
    return sizes


def dtype_name(value: str) -> Dtype:
    """`bf16`, `bfloat16`, `torch.bfloat16`"""
    known = DTYPES.get(value.lower().removeprefix("torch."))
    if known is None:
        raise click.BadParameter(f"'{value}' is none of {', '.join(DTYPES)}")
    return known


def mask(value: str) -> Mask:
    """One of the kinds, or `window=N`."""
    from trueup.attention.call import MASK_KINDS, Mask

    name, sign, number = value.partition("=")
    if name == "window" and number.isdecimal() and int(number) > 0:
        return Mask(kind="window", window=int(number))
    kind = next((kind for kind in MASK_KINDS if kind == name), None)
    if kind is None or sign or kind == "window":
        raise click.BadParameter(f"{value} is none of {MASKS}")
    return Mask(kind=kind)


def torch_release(value: str) -> tuple[int, ...]:
    """`2.11` or `2.11.0+cu130`"""
    from trueup.attention.here import release

    found = release(value)
    if len(found) < 2:
        raise click.BadParameter(f"{value} is no release of torch; give one like 2.11")
    return found


def probability(value: str) -> float:
    """At least 0 and below 1."""
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1:
        raise click.BadParameter(f"{value} is no probability from 0 up to 1")
    return number


def entry(value: str) -> str:
    """A name of `trueup.attention.entries`."""
    from trueup.attention.entries import ENTRIES

    if value not in ENTRIES:
        raise click.BadParameter(f"{value} is none of {', '.join(ENTRIES)}")
    return value


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Those that say what the call is, in the order of `--help`."""
    for option in reversed(
        (
            click.option(
                "--shape",
                "query",
                type=shape,
                required=True,
                metavar="B,H,S,D",
                help="Of the queries: batch, heads, length, head size.",
            ),
            click.option("--kv-heads", type=click.IntRange(0), metavar="N", help="Heads of keys and values."),
            click.option("--kv-length", type=click.IntRange(0), metavar="N", help="Length of keys and values."),
            click.option("--value-size", type=click.IntRange(0), metavar="N", help="Head size of values."),
            click.option("--kv-shape", type=shape, metavar="B,H,S,D", help="Shape of keys and values as a whole."),
            click.option(
                "--dtype",
                type=dtype_name,
                default="bf16",
                show_default=True,
                metavar="NAME",
                help="bf16, fp16, fp32, fp64 or fp8.",
            ),
            click.option(
                "--mask",
                "hidden",
                type=mask,
                default="none",
                show_default=True,
                metavar="KIND",
                help=f"{MASKS}. A causal one is is_causal, a causal-tensor and the others are tensors for SDPA.",
            ),
            click.option("--enable-gqa", is_flag=True, help="The flag for fewer heads of keys than of queries."),
            click.option("--dropout", type=probability, default="0", metavar="P", help="Dropout in attention."),
            click.option("--softcap", is_flag=True, help="Scores are capped (Gemma 2)."),
            click.option("--sinks", is_flag=True, help="Learned attention sinks (gpt-oss)."),
            click.option("--alibi", is_flag=True, help="ALiBi slopes."),
            click.option("--requires-grad/--no-grad", default=True, show_default=True, help="Whether it is trained."),
            click.option("--deterministic", is_flag=True, help="With torch.use_deterministic_algorithms(True)."),
            click.option("--compiled", is_flag=True, help="Inside of torch.compile, a model as a whole."),
            click.option("--nested", is_flag=True, help="Nested tensors."),
            click.option("--strided", is_flag=True, help="Inputs whose last dimension has another stride than 1."),
        )
    ):
        command = option(command)
    return command  # fmt: skip


@click.command(short_help="Say which kernels serve a call, which one it takes, and why not the others.")
@_options
@click.option(
    "--entry",
    "through",
    type=entry,
    default="sdpa",
    show_default=True,
    metavar="NAME",
    help="What is called: sdpa, flex, varlen_attn, flash_attn, xformers, ..., or the attn_implementation of a "
    "Hugging Face decoder: hf-sdpa, hf-eager, flash_attention_2, flex_attention, ...",
)
@click.option(
    "--gpu", metavar="NAME", help="h100, a100, l4, 'rtx 4090', sm_90, ... or cpu. Default: the one attached, else cpu."
)
@click.option("--torch", "torch", type=torch_release, metavar="VERSION", help="Another torch than the installed one.")
@click.option("--disable", multiple=True, type=click.Choice(SWITCHES), help="A kernel of SDPA that is switched off.")
@click.option("--python", metavar="PATH", help="Look at the packages of this interpreter.")
@json_option()
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text", show_default=True,
              help="What is printed.")  # fmt: skip
def explain(
    query: tuple[int, ...],
    kv_heads: int | None,
    kv_length: int | None,
    value_size: int | None,
    kv_shape: tuple[int, ...] | None,
    dtype: Dtype,
    hidden: Mask,
    through: str,
    gpu: str | None,
    torch: tuple[int, ...] | None,
    disable: tuple[str, ...],
    deterministic: bool,
    strided: bool,
    requires_grad: bool,
    python: str | None,
    json_file: Path | None,
    form: str,
    **features: Any,
) -> int:
    """Tell, without running anything, which attention kernel a call takes: on this machine or on a GPU that you name.

    For each kernel it says what keeps it from the call, where that stands (unverified: read in the source, not run by
    our tests), and what to change for a better one. Nothing is imported; versions are read from files.

    \b
      trueup attention explain --shape 2,32,4096,128 --gpu h100
      trueup attention explain --shape 2,32,4096,128 --kv-heads 8 --mask all-ones --gpu a100
      trueup attention explain --shape 1,16,2048,256 --dtype fp32 --gpu t4 --no-grad
      trueup attention explain --shape 2,32,4096,128 --entry flash_attention_2 --mask padding --gpu l4

    \b
    Exit codes: 0 the call succeeds, 1 it would fail, 2 wrong usage, 3 trueup itself failed
    """
    found = place(gpu, torch, python, frozenset(disable), deterministic)
    key, value = kv_shapes(query, kv_shape, kv_heads, kv_length, value_size)
    from trueup.attention.call import Call

    call = Call(
        query=query,
        key=key,
        value=value,
        dtype=dtype,
        mask=hidden,
        contiguous=not strided,
        requires_grad=requires_grad,
        entry=through,
        place=found.place,
        **_defaulted(features, through),
    )
    answer = answered(call, found)
    from trueup.reports import attention as report

    if form == "json":
        write(printed_on(), report.as_json(answer))
    else:
        write(printed_on(), report.as_text(answer, width=width_of(printed_on()), colour=is_coloured(printed_on())))
    if json_file is not None:
        save(report.as_json(answer), json_file)
    return FINDINGS if answer.error else 0


def _defaulted(features: dict[str, Any], through: str) -> dict[str, Any]:
    """FlexAttention is called through torch.compile, which is its use."""
    return {**features, "compiled": features["compiled"] or through == "flex"}


def kv_shapes(
    query: tuple[int, ...],
    given: tuple[int, ...] | None,
    heads: int | None,
    length: int | None,
    value_size: int | None,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of keys and of values: those of the queries but for what is given."""
    if given is not None:
        if heads is not None or length is not None:
            raise click.UsageError("--kv-shape says all; give it, or --kv-heads and --kv-length")
        if len(given) != len(query):
            raise click.UsageError(f"--kv-shape has {len(given)} dimensions and --shape {len(query)}")
    key = list(given or query)
    if heads is not None:
        if len(key) < 3:
            raise click.UsageError("--kv-heads needs a --shape of 3 dimensions or more")
        key[-3] = heads
    if length is not None:
        if len(key) < 2:
            raise click.UsageError("--kv-length needs a --shape of 2 dimensions or more")
        key[-2] = length
    size = key[-1] if value_size is None else value_size
    return tuple(key), (*key[:-1], size)


def place(
    gpu: str | None, torch: tuple[int, ...] | None, python: str | None, disabled: frozenset[str], deterministic: bool
) -> Here:
    """Where it runs: what was named, else what is here."""
    from trueup.attention.devices import UnknownGpu
    from trueup.attention.here import here, with_switches
    from trueup.environment.host import Host
    from trueup.environment.target import TargetError, target_of

    host = Host()
    try:
        found = here(target_of(host, python=python), host, gpu=gpu, torch=torch)
    except (TargetError, UnknownGpu) as error:
        raise click.UsageError(str(error)) from error
    return with_switches(found, disabled=disabled, deterministic=deterministic)


def answered(call: Call, found: Here) -> KernelAnswer:
    """The answer to the call."""
    from trueup import __version__
    from trueup.attention.bench.saved import measured_order
    from trueup.attention.explaining import explain

    measured = measured_order(call, found.device) if found.device and call.rank == 4 else None
    return explain(call, gpu=found.gpu, notes=found.notes, measured=measured, version=__version__)
