"""What was asked of torch.compile in a run, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from trueup.rules.facts import applied, asked, is_on, percent, taken_out, trained, variable
from trueup.rules.guards import Storm
from trueup.schema.finding import Evidence
from trueup.schema.record import Applied, Compile, Record

FLAGS = ("torch_compile", "dynamo_backend", "use_torch_compile", "regional")
"""Settings of trainers that ask for compilation of the model."""

DEFAULT_LIMIT = 8
"""torch._dynamo.config.recompile_limit as torch sets it."""

CONFIG = ("disable", "suppress_errors")
SWITCHES = ("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE")


def compile_calls(record: Record) -> tuple[Applied, ...]:
    """Calls of torch.compile and Module.compile on modules and their methods; not on functions, nor on an optimizer."""
    calls = applied(record, "torch.compile", "Module.compile")
    return tuple(call for call in calls if _on_module(call) and not call.detail.get("disabled"))


def _on_module(call: Applied) -> bool:
    target = call.detail.get("target", "module")
    return target == "module" or (target == "method" and call.detail.get("class") is not None)


def flags_on(record: Record) -> tuple[str, ...]:
    """The trainer's settings that asked for compilation."""
    return tuple(name for name in FLAGS if is_on(asked(record, "compile", name)))


def compile_asked(record: Record) -> bool:
    """True when code or configuration asked for the model or its blocks to be compiled, and the run left it on."""
    return not taken_out(record, "compile") and bool(compile_calls(record) or flags_on(record))


def switched_off(record: Record) -> tuple[str, ...]:
    """What the job itself says to keep compilation off, or to pass over its failures."""
    variables = [f"{name}={value}" for name in SWITCHES if (value := variable(record, name)) not in (None, "", "0")]
    stances = [f"set_stance({each.detail.get('stance')!r})" for each in applied(record, "set_stance")]
    settings = [
        f"torch._dynamo.config.{name}=True"
        for each in applied(record, "dynamo.config")
        for name in CONFIG
        if each.detail.get(name)
    ]
    return (*variables, *stances, *settings)


def nothing_compiled(record: Record) -> bool:
    """True when a sampled step proved that no part of the model ran compiled."""
    return trained(record) and record.actual.compile.fraction == 0.0


def no_frame_seen(record: Record) -> bool:
    """True when, beside that, Dynamo never started on a frame: compilation was not tried and lost, it never began."""
    compile = record.actual.compile
    return nothing_compiled(record) and compile.frames == 0 and compile.graphs == 0


def partly_eager(compile: Compile) -> bool:
    """True when blocks ran eager; without blocks, when a good part of the parameters did.

    Blocks come first because embeddings are left out on purpose by whoever compiles block by block.
    """
    if compile.blocks.total:
        return compile.fraction is not None and compile.blocks.compiled < compile.blocks.total
    return compile.fraction is not None and compile.fraction < 0.95


def coverage(compile: Compile) -> tuple[Evidence, ...]:
    """How much of the model ran compiled in the least covered of the late samples."""
    if compile.blocks.total:
        words = f"blocks of {compile.blocks.total} that ran compiled in the least covered sample"
        return (Evidence(what=words, value=compile.blocks.compiled),)
    if compile.fraction is not None:
        return (
            Evidence(what="share of parameters that ran compiled in the least covered sample", value=compile.fraction),
        )
    return ()


def effect(compile: Compile) -> str:
    """`; 0 of 12 blocks run compiled`, for the end of a message; empty when not observed."""
    if compile.blocks.total:
        return f"; {compile.blocks.compiled} of {compile.blocks.total} blocks run compiled"
    if compile.fraction is not None:
        return f"; {percent(compile.fraction)} of the parameters run compiled"
    return ""


def variants_expected(record: Record) -> bool:
    """True when the job itself made room for many variants of a function: below its limit nothing is lost by them."""
    limits = (each.detail.get("recompile_limit", 0) for each in applied(record, "dynamo.config"))
    isolated = (call.detail.get("isolated", False) for call in compile_calls(record))
    return any(isolated) or any(limit > DEFAULT_LIMIT for limit in limits)


def twins(record: Record) -> dict[str, int]:
    """Classes of which the process holds several models, with their number: they share their compiled code."""
    return {name: number for name, number in Counter(record.actual.training.models).items() if number > 1}


def storm_evidence(found: Iterable[Storm], compile: Compile) -> tuple[Evidence, ...]:
    """Evidence of all storms and of their effect."""
    return tuple(piece for storm in found for piece in storm.evidence()) + coverage(compile)
