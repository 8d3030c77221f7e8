"""The whole model is compiled around FSDP2, whose hooks end the graph at every unit."""

from __future__ import annotations

from trueup.rules.break_logs import break_lines
from trueup.rules.compilation import compile_calls, coverage, effect
from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, listed, places, switched
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    compile, strategy = record.actual.compile, record.actual.sharding.strategy or ""
    shards = applied(record, "fully_shard")
    whole = tuple(call for call in compile_calls(record) if call.detail.get("whole_model"))
    if not (strategy in ("FSDP2", "HSDP") or shards) or not whole or switched(record, "compile"):
        return None
    if not compile.root_eager:
        return None
    eager = [f"{name} x{calls}" for name, calls in compile.eager_modules.items()]
    return Sighting(
        message=f"The whole model was compiled around FSDP2, and its outermost forward ran eager"
        f"{effect(compile)}{'; eager: ' + listed(eager) if eager else ''}.",
        evidence=(
            Evidence(what="outermost forward ran as plain Python in the last sampled step", value=True),
            *coverage(compile),
            *places(whole[:2]),
            *places(shards[:2]),
        ),
    )


HOOKS = (
    r"FSDPState\._(?:pre|post)_forward|FSDPParamGroup|fsdp_hook_wrapper|_fsdp_state|fsdp/_fully_shard|_composable/fsdp"
    r"|FSDP(?:2)? (?:pre|post).forward|FSDPModule"
)


def detect_log(log: Log) -> Sighting | None:
    """Dynamo meets the hooks of fully_shard, which are kept out of it on purpose."""
    for each in break_lines(log):
        if each.says(HOOKS) or each.within(HOOKS):
            return each.sighting(log, "The compiled module contains modules with FSDP2 hooks, which end the graph.")
    return None


RULE = Rule(
    id="compile/fsdp2-hooks-inside-compiled-module",
    title="Compiled module contains FSDP2 hooks",
    layers=("compile", "sharding", "checkpointing"),
    severity="warning",
    silent=(
        "Without fullgraph only the blocks are compiled; embedding, last norm and head run eager, and the "
        "usual break counter stays empty."
    ),
    cause=(
        "FSDP2 marks its pre- and post-forward hooks as not compilable. When the compiled module has "
        "sharded children the graph ends at each of them, and inside the loop over blocks Dynamo gives up "
        "the outer forward."
    ),
    remedies=(
        Remedy(
            id="compile-per-block",
            kind="in-process",
            automatic=True,
            how="activation checkpointing, then block.compile() for each block, then fully_shard",
        ),
        Remedy(
            id="accelerate-regional-compilation",
            kind="env-var",
            automatic=True,
            how="ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION=true (jobs that compile through accelerate)",
        ),
    ),
    caution=(
        "The graph-break counter is no evidence here, the modules that ran eager are. Blocks compiled one "
        "by one are fine on either side of fully_shard."
    ),
    sources=("https://github.com/pytorch/torchtitan/issues/472",),
    explains=(
        "compile/untraceable-python-in-model-code",
        "compile/whole-model-cold-start",
        "compile/requested-and-not-applied",
    ),
    from_record=detect,
    from_log=detect_log,
)
