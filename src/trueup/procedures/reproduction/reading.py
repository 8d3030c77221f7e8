"""Recipes from the record of a failing job: its guilty layers in the order and with the settings that were observed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from trueup.procedures.reproduction.recipe import Recipe, Scope, Step
from trueup.procedures.reproduction.signs import is_shown, signs_of
from trueup.schema.bisection import Signature
from trueup.schema.record import Applied, Record

SETTINGS = {
    "compile": ("backend", "mode", "fullgraph", "dynamic"),
    "sharding": (
        "reshard_after_forward",
        "param_dtype",
        "reduce_dtype",
        "sharding_strategy",
        "use_orig_params",
        "auto_wrap_policy",
        "find_unused_parameters",
        "static_graph",
        "gradient_as_bucket_view",
    ),
    "checkpointing": ("use_reentrant", "reentrant"),
    "adapter": ("via", "r", "target_modules"),
    "precision": ("dtype",),
}
"""What of an event's detail is taken over, by layer."""
WAYS = {
    ("compile", "torch.compile"): "torch.compile",
    ("compile", "Module.compile"): "Module.compile",
    ("compile", "compile_regions"): "torch.compile",
    ("compile", "compiled_autograd"): "compiled autograd",
    ("sharding", "fully_shard"): "fully_shard",
    ("sharding", "FullyShardedDataParallel"): "FSDP",
    ("sharding", "DistributedDataParallel"): "DDP",
    ("checkpointing", "gradient_checkpointing_enable"): "gradient_checkpointing_enable",
    ("checkpointing", "checkpoint_wrapper"): "checkpoint_wrapper",
    ("checkpointing", "apply_activation_checkpointing"): "checkpoint_wrapper",
    ("adapter", "get_peft_model"): "adapter",
    ("precision", "autocast"): "autocast",
}
"""(layer, event) → how a script does the same."""
SAMPLED = 6
"""Steps after which what trueup looks at has been looked at twice."""
ALWAYS_BLOCKS = frozenset({"compile_regions", "apply_activation_checkpointing"})
SHARDED_AS = {"FSDP1": "FSDP", "FSDP2": "fully_shard", "DDP": "DDP"}
BREAKS = (("item()", "item"), ("print", "print"), ("data-dependent", "item"), ("Data-dependent", "item"))
"""Words of a graph break's reason → what breaks the graph of a block in the same way."""


def recipes(record: Record, minimal: Sequence[str], signature: Signature) -> Iterator[Recipe]:
    """Scripts to try, the plainest model first; each as full as the job, to be made smaller when it fails."""
    steps = _steps(record, minimal)
    trained = record.actual.training
    ranks = max(record.launch.world_size or len(record.ranks) or 1, 1)
    plain = Recipe(
        off=tuple(minimal),
        steps=steps,
        attention="attention" in minimal or bool(record.actual.attention.kernels),
        breaks=tuple(dict.fromkeys(name for each in record.actual.compile.breaks if (name := _broken_by(each.reason)))),
        ranks=min(ranks, 2) if "sharding" in minimal or ranks > 1 else 1,
        device="cuda" if any("cpu" not in str(each) for each in record.environment.get("devices") or ()) else "cpu",
        threshold=signature.threshold,
        iterations=_iterations(record, signature),
    )
    if record.actual.adapter.adapter_trainable < trained.trainable and "adapter" in minimal:
        plain = msgspec.structs.replace(plain, steps=tuple(_with_others(step) for step in steps))
    kinds = [None, *_hugging_face(record)]
    for sign in signs_of(signature):
        for model in kinds:
            recipe = msgspec.structs.replace(plain, model=model, sign=sign)
            if is_shown(recipe):
                yield from _variants(recipe, record)


def _iterations(record: Record, signature: Signature) -> int:
    """Steps of the script. A first loss that is not finite is no optimizer's: the script may not fail by its own."""
    if signature.kind in ("finding", "coverage"):
        return SAMPLED
    return 1 if signature.kind == "not finite" and record.steps.not_finite[:1] == (1,) else 3


def _variants(recipe: Recipe, record: Record) -> Iterator[Recipe]:
    """What the record leaves open: the kind of checkpoint in a model's own forward, the kind of FSDP1's policy."""
    open_choices = [(step, options) for step in recipe.steps if (options := _open(step, record))]
    for step, choices in open_choices:
        for chosen in choices:
            settled = msgspec.structs.replace(step, options={**step.options, **chosen})
            steps = tuple(settled if each is step else each for each in recipe.steps)
            yield msgspec.structs.replace(recipe, steps=steps)
        return
    yield recipe


def _open(step: Step, record: Record) -> tuple[dict[str, Any], ...]:
    """Settings of a step of which one holds, the likelier first; none where it is known."""
    if step.way == "checkpoint" and record.actual.checkpointing.reentrant is None:
        return ({"use_reentrant": False}, {"use_reentrant": True})
    if step.way == "FSDP" and not any(each.event == "FullyShardedDataParallel" for each in record.order):
        return ({"auto_wrap_policy": "function"}, {"auto_wrap_policy": "class"})
    return ()


def _steps(record: Record, minimal: Sequence[str]) -> tuple[Step, ...]:
    """The applications of the layers, each kind once, in the order in which they were first made."""
    found: dict[tuple[str, str, Scope], Step] = {}
    lead = min((each.rank for each in record.order), default=0)
    for applied in record.order:
        way = WAYS.get((applied.layer, applied.event))
        if (
            way is None
            or applied.layer not in minimal
            or applied.rank != lead
            or applied.detail.get("enabled") is False
        ):
            continue
        scope = _scope(applied, record)
        if scope is None:
            continue
        known = SETTINGS.get(applied.layer, ())
        options = {name: value for name in known if (value := applied.detail.get(name)) is not None}
        found.setdefault((applied.layer, way, scope), Step(layer=applied.layer, way=way, scope=scope, options=options))
    steps = [*found.values()]
    for layer in minimal:
        if not any(step.layer == layer for step in steps) and (unseen := _unseen(layer, record)) is not None:
            steps.append(unseen)
    return tuple(steps)


def _scope(applied: Applied, record: Record) -> Scope | None:
    """Whether the model or each of its blocks was given; None for other parts of it."""
    if applied.event in ALWAYS_BLOCKS:
        return "blocks"
    if applied.module in record.actual.compile.blocks.names:
        return "blocks"
    if applied.layer == "compile" and applied.detail.get("target") == "module":
        return "model" if applied.detail.get("whole_model") else "blocks"
    if applied.event == "fully_shard" and applied.module not in _roots(record):
        return None
    return "model"


def _roots(record: Record) -> set[str | None]:
    """Classes of whole models: what training saw as the outermost, what was configured, and the last one sharded."""
    sharded = [each.module for each in record.order if each.event == "fully_shard"]
    return {*record.actual.training.models, *_hugging_face(record), *sharded[-1:]}


def _hugging_face(record: Record) -> list[str]:
    """Classes of transformers that the job made, the first one first."""
    made = [each.module for each in record.order if (each.layer, each.event) == ("attention", "config")]
    return list(dict.fromkeys(name for name in made if name))[:1]


def _unseen(layer: str, record: Record) -> Step | None:
    """A layer that no event tells of: it raised while it was applied, or sits in the model's own code."""
    if layer == "checkpointing":
        reentrant = record.actual.checkpointing.reentrant
        return Step(layer=layer, way="checkpoint", options={} if reentrant is None else {"use_reentrant": reentrant})
    if layer == "sharding":
        way = SHARDED_AS.get(str(record.requested.get(layer, {}).get("strategy")))
        return Step(layer=layer, way=way, options={"auto_wrap_policy": True}) if way else None
    if layer == "compile" and layer in record.requested:
        asked = record.requested[layer]
        known = {name: asked[name] for name in SETTINGS[layer] if asked.get(name) is not None}
        return Step(layer=layer, way="torch.compile", options=known)
    if layer == "adapter" and layer in record.requested:
        asked = record.requested[layer]
        known = {name: asked[name] for name in SETTINGS[layer] if asked.get(name) is not None}
        return Step(layer=layer, way="adapter", options=known)
    if layer == "precision" and (low := _low(record.actual.precision.parameters)):
        return Step(layer=layer, way="cast", options={"dtype": low})
    if layer == "attention":
        return Step(layer=layer, way="attention", options={"implementation": _implementation(record)})
    return None


def _low(shares: dict[str, float]) -> str | None:
    return next((name for name, share in shares.items() if name in ("bfloat16", "float16") and share > 0.5), None)


def _implementation(record: Record) -> str:
    """Of attention, as transformers names it."""
    asked = [
        each.detail.get("attn_implementation")
        for each in record.order
        if (each.layer, each.event) == ("attention", "config")
    ]
    return str(asked[-1]) if asked and asked[-1] else "sdpa"


def _with_others(step: Step) -> Step:
    """The adapter, beside which other parameters train."""
    if step.layer != "adapter":
        return step
    return msgspec.structs.replace(step, options={**step.options, "others": True})


def _broken_by(reason: str) -> str | None:
    return next((name for words, name in BREAKS if words in reason), None)
