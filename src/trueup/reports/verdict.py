"""The whole record in one line: what was real, layer by layer, and how much was found."""

from __future__ import annotations

from collections.abc import Iterator

from trueup.reports.excerpt import first_sentence
from trueup.reports.plain import plain
from trueup.reports.quantities import count, percent
from trueup.reports.variant import forced_in_words
from trueup.schema.finding import SEVERITIES
from trueup.schema.record import Attention, Compile, Record

FULL_PRECISION = ("float32", "float64", "complex64", "complex128")
"""All other dtypes of matrix multiplications count as low."""
LONGEST_FORCED = 48
"""Longer lists of forced layers have their own line only."""


def verdict(record: Record) -> str:
    """One sentence without line breaks, for example `compile: 0/12 blocks compiled; FSDP2 over 2 ranks; 1 warning`."""
    return plain("; ".join([*_parts(record), findings_in_words(record)]))


def exit_in_words(record: Record) -> str | None:
    """How the command ended, or None when it ended well or still runs."""
    ended = record.exit
    if ended.reason == "timeout":
        return "stopped by --timeout"
    if ended.reason == "interrupted":
        return "interrupted"
    if not ended.code:
        return None
    how = f"killed by {ended.signal}" if ended.signal else f"failed with exit code {ended.code}"
    return f"{how}: {first_sentence(ended.reason)}" if ended.reason else how


def compiled_in_words(compiled: Compile) -> str | None:
    """How much ran compiled, or None when nothing of it was seen."""
    if compiled.blocks.total and compiled.fraction is not None:
        return f"{compiled.blocks.compiled}/{compiled.blocks.total} blocks compiled"
    if compiled.fraction is not None and (compiled.entries or compiled.frames or compiled.graphs):
        return f"{percent(compiled.fraction)} of the parameters ran compiled"
    if compiled.graphs:
        return f"{count(compiled.graphs, 'graph')}, coverage not sampled yet"
    if compiled.entries:
        return "no graph"
    return None


def attention_in_words(attention: Attention) -> str | None:
    """The kernels that ran with their shares, or None when no attention call was seen."""
    if not attention.kernels:
        return None
    kernels = ", ".join(f"{kernel.name} {percent(kernel.share)}" for kernel in attention.kernels[:3])
    if attention.fused_fraction is None:
        return kernels
    if attention.fused_fraction == 1:
        return f"{kernels} (fused)"
    if attention.fused_fraction == 0:
        return f"{kernels} (not fused)"
    return f"{kernels} ({percent(attention.fused_fraction)} fused)"


def findings_in_words(record: Record) -> str:
    """`1 error, 2 warnings`, or `no findings`."""
    by_severity = [(severity, sum(f.severity == severity for f in record.findings)) for severity in SEVERITIES]
    return ", ".join(count(number, severity) for severity, number in by_severity if number) or "no findings"


def _parts(record: Record) -> Iterator[str]:
    actual = record.actual
    ended = exit_in_words(record)
    if ended:
        yield ended
    forced = forced_in_words(record)
    if forced and len(forced) <= LONGEST_FORCED:
        yield f"forced {forced}"
    if not record.ranks:
        yield "nothing observed: no rank has reported"
        return
    launch = record.launch
    if launch.requested_world_size and launch.world_size and launch.requested_world_size != launch.world_size:
        yield f"{launch.world_size} of {count(launch.requested_world_size, 'process', 'processes')} trained"
    compiled = compiled_in_words(actual.compile)
    if compiled and compile_wanted(record):
        yield f"compile: {compiled}"
    elif compile_requested(record):
        yield "compile: not seen"
    attention = attention_in_words(actual.attention)
    if attention:
        yield f"attention: {attention}"
    strategy = actual.sharding.strategy
    if strategy and strategy != "none":
        yield f"{strategy} over {count(launch.world_size or len(record.ranks), 'rank')}"
    elif record.requested.get("sharding"):
        yield "sharding: none"
    if actual.checkpointing.fraction is not None and (actual.checkpointing.calls or actual.checkpointing.fraction):
        yield f"checkpointing: {percent(actual.checkpointing.fraction)} of the blocks"
    low = {dtype: share for dtype, share in actual.precision.matmul.items() if dtype not in FULL_PRECISION}
    if low:
        yield "matmuls: " + ", ".join(f"{dtype} {percent(share)}" for dtype, share in low.items())
    if actual.adapter.names and actual.adapter.trainable_fraction is not None:
        yield f"adapter: {percent(actual.adapter.trainable_fraction)} of the parameters trainable"


def compile_wanted(record: Record) -> bool:
    """False for a job that asked for no compilation and got none, about which there is nothing to say."""
    compiled = record.actual.compile
    seen = compiled.entries or compiled.frames or compiled.graphs or compiled.fraction
    asked = any(step.layer == "compile" and step.event != "dynamo.config" for step in record.order)
    return bool(seen or asked or compile_requested(record))


def compile_requested(record: Record) -> bool:
    """True when a setting of the compile layer asks for something: launchers also tell a backend of `no`."""
    return any(
        str(value).lower() not in ("no", "none", "false", "") for value in record.requested.get("compile", {}).values()
    )
