"""Blocks share one code object but differ in an attribute, so each block is compiled for itself."""

from __future__ import annotations

from trueup.rules.compilation import coverage, effect, partly_eager, storm_evidence
from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.facts import listed
from trueup.rules.guards import Storm, storms
from trueup.rules.log_facts import mention
from trueup.rules.recompile_logs import HARD, hard_failure, limits_of, storm
from trueup.rules.recompile_logs import Storm as LoggedStorm
from trueup.schema.finding import Remedy
from trueup.schema.log import Log
from trueup.schema.record import Compile, Record

GROWING = 3
"""Recompiles in this many different steps mean that the attribute changes in time, not from block to block."""

LIMIT = 8
"""The default of torch._dynamo.config.recompile_limit: graphs of one function."""


def detect(record: Record) -> Sighting | None:
    compile = record.actual.compile
    found = tuple(storm for storm in storms(compile, "attribute", at_least=3) if (storm.steps or 0) < GROWING)
    if not found:
        return None
    sources = listed(dict.fromkeys(source for storm in found for source in storm.sources))
    return Sighting(
        message=f"{found[0].function} was compiled again {found[0].count} times because {sources or 'an attribute'} "
        f"differs between blocks{effect(compile)}.",
        evidence=storm_evidence(found, compile),
        confidence="established" if all(storm.steps for storm in found) else "likely",
        severity="note" if accepted(found, compile) else "warning",
    )


def accepted(found: tuple[Storm, ...], compile: Compile) -> bool:
    """True when the job has raised the limit and so got every block compiled: it pays one compile a block, once."""
    past_the_default = max(storm.count for storm in found) >= LIMIT and not compile.limits
    return past_the_default and bool(coverage(compile)) and not partly_eager(compile)


FLEX = r"[Ff]lex_?[Aa]ttention"


def detect_log(log: Log) -> Sighting | None:
    """A guard on an attribute of a module; the bare warning leaves it the commonest of several classes."""
    found = storm(log, "attribute")
    if found is not None:
        return found.sighting(f"{found.sources[0]} differs between blocks")
    for limit in limits_of(log):
        if limit.guard is None and not limit.of_optimizer and mention(log, FLEX) is None:
            return LoggedStorm(log, limit, ()).sighting(
                "the log does not show the reason; an attribute that differs between blocks is the commonest",
                confidence="possible",
                specificity=940,
            )
    hard = hard_failure(log)
    if hard is None or next(iter(limits_of(log)), None) is not None:
        return None
    told = mention(log, HARD.pattern)
    return Sighting(
        message="A function under fullgraph=True reached the recompile limit; the log does not show the reason, and an "
        "attribute that differs between blocks is the commonest.",
        evidence=(told.evidence(log),) if told else (),
        confidence="possible",
        severity="error",
        failure=hard,
        specificity=940,
    )


RULE = Rule(
    id="compile/recompile-per-layer-attribute",
    title="Layers sharing one code object recompile for a per-layer attribute",
    layers=("compile", "attention"),
    severity="warning",
    silent="The remaining blocks run eager after the limit; one log line says so.",
    cause=(
        "All blocks of a class run the same compiled code, and Dynamo guards on attributes that differ "
        "between them: an integer such as layer_idx by value, an object such as a processor by identity. "
        "Each value counts against one limit of 8."
    ),
    remedies=(
        Remedy(
            id="unspecialize-module-integers",
            kind="in-process",
            automatic=True,
            how="torch._dynamo.config.allow_unspec_int_on_nn_module = True before the first step (integers)",
        ),
        Remedy(
            id="attention-without-layer-index",
            kind="in-process",
            automatic=True,
            how="an attention function of Hugging Face models that passes no layer_idx on to flash attention",
        ),
        Remedy(
            id="dynamic-attention-scale",
            kind="in-process",
            automatic=True,
            how="scaled_dot_product_attention(q * scale, k, v, scale=1.0) where the scale differs between blocks",
        ),
        Remedy(
            id="isolate-recompiles",
            kind="in-process",
            automatic=True,
            how="block.compile(isolate_recompiles=True): a limit of its own for each block (torch 2.13)",
        ),
        Remedy(
            id="share-per-layer-object",
            kind="code",
            automatic=False,
            how="give all blocks the same processor or config object, or an attention function that ignores layer_idx",
        ),
        Remedy(
            id="raise-recompile-limit",
            kind="in-process",
            automatic=True,
            how="torch._dynamo.config.recompile_limit = number of blocks (costs one compile per block)",
        ),
    ),
    caution=(
        "Read the last reason: a cache in it is recompile-kv-cache-in-training, a size is a shape class, "
        "and an attribute that changes from step to step is recompile-growing-python-state."
    ),
    sources=("https://github.com/pytorch/pytorch/pull/171598", "https://github.com/pytorch/pytorch/issues/163329"),
    explains=("compile/recompile-limit-reached", "compile/requested-and-not-applied"),
    from_record=detect,
    log=(
        LogText(
            text="allow_unspec_int_on_nn_module",
            strength="supporting",
            versions="torch 2.8 and newer, a hint behind the guard on an integer of a module",
        ),
    ),
    from_log=detect_log,
)
