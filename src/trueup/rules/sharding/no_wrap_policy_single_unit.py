"""The whole model is one FSDP unit, so its first gather brings all of it onto each device."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.environment_facts import asks_for_fsdp, configured, said
from trueup.rules.facts import applied
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    sharding, blocks = record.actual.sharding, record.actual.compile.blocks
    strategy = sharding.strategy or ""
    if not strategy.startswith(("FSDP", "HSDP")) or sharding.units != 1 or blocks.total < 3:
        return None
    wraps = applied(record, "fully_shard", "FullyShardedDataParallel")
    return Sighting(
        message=(
            f"{strategy} made one unit of a model with {blocks.total} blocks: the first forward gathers all parameters."
        ),
        evidence=(
            Evidence(what="FSDP units", value=1, at=wraps[0].at if wraps else None),
            Evidence(what="blocks of the model", value=blocks.total),
        ),
        remedies=() if applied(record, "Accelerator", "Trainer") else (in_the_script(record, strategy),),
    )


def in_the_script(record: Record, strategy: str) -> Remedy:
    """The line for a program that calls FSDP itself, or has Lightning call it."""
    how = (EACH_BLOCK if strategy.startswith("FSDP2") else POLICY).how
    for caller in applied(record, *BY_STRATEGY):
        if caller.detail.get("strategy") == "FSDPStrategy":
            how = BY_STRATEGY[caller.event]
    return Remedy(id=IN_SETTINGS.id, kind=IN_SETTINGS.kind, automatic=True, how=how)


def detect_in_environment(environment: Environment) -> Sighting | None:
    sharded, policy = asks_for_fsdp(environment), configured(environment, "fsdp_auto_wrap_policy")
    if sharded is None or policy is None or policy.value.upper() != "NO_WRAP":
        return None
    return Sighting(
        message="FSDP is set to NO_WRAP, which makes the whole model one unit.",
        evidence=(said(policy), said(sharded)),
        confidence="likely",
    )


IN_SETTINGS = Remedy(
    id="wrap-blocks",
    kind="in-process",
    automatic=True,
    how="FSDP_AUTO_WRAP_POLICY=TRANSFORMER_BASED_WRAP and FSDP_TRANSFORMER_CLS_TO_WRAP=<block class> (accelerate)",
)
POLICY = Remedy(
    id="auto-wrap-policy",
    kind="code",
    automatic=False,
    how=(
        "FullyShardedDataParallel(model, auto_wrap_policy=functools.partial(transformer_auto_wrap_policy, "
        "transformer_layer_cls={<block class>})) (plain FSDP1)"
    ),
)
EACH_BLOCK = Remedy(
    id="shard-each-block",
    kind="code",
    automatic=False,
    how="fully_shard(block) for each block, then fully_shard(model) (FSDP2)",
)
BY_STRATEGY = {
    "Trainer.fit": "Trainer(strategy=FSDPStrategy(auto_wrap_policy={<block class>})) (Lightning)",
    "Fabric": "Fabric(strategy=FSDPStrategy(auto_wrap_policy={<block class>})) (Lightning)",
}
"""What applied Lightning's FSDPStrategy → the line for it."""

RULE = Rule(
    id="sharding/no-wrap-policy-single-unit",
    title="No wrap policy makes the whole model one FSDP unit",
    layers=("sharding", "adapter", "trainer", "memory"),
    severity="warning",
    silent="Peak memory is near that of an unsharded model; everything else works.",
    cause="Without a wrap policy, or with one that matches nothing, only the root is sharded.",
    remedies=(IN_SETTINGS, POLICY, EACH_BLOCK),
    caution="A tiny model with hardly any blocks may be one unit.",
    sources=("https://github.com/huggingface/accelerate/issues/3474",),
    from_record=detect,
    from_environment=detect_in_environment,
)
