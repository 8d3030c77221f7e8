"""Compiled autograd runs FSDP's callbacks outside of the backward pass."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, errors, places, switched, trained
from trueup.rules.log_facts import mention, passes
from trueup.rules.log_parts import frames
from trueup.schema.finding import Confidence, Evidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Applied, Record

TEXT = r"Final callbacks can only be installed during backward pass"


SHARDED = ("FSDP", "HSDP")


def detect(record: Record) -> Sighting | None:
    return raised(record) or silent(record)


def raised(record: Record) -> Sighting | None:
    crashed = errors(record, TEXT)
    if not crashed:
        return None
    return Sighting(
        message="FSDP could not install its final callback: the backward pass was traced by compiled autograd.",
        evidence=(*crashed, *places(applied(record, "dynamo.config", "fully_shard", "FullyShardedDataParallel")[:2])),
    )


def silent(record: Record) -> Sighting | None:
    """Compiled autograd was on, and no backward pass that was looked at reduced a gradient."""
    sharding, on = record.actual.sharding, captured(record)
    steps = [step for step in sharding.exchanges if step.backwards]
    if not on or not steps or not (sharding.strategy or "").startswith(SHARDED):
        return None
    if (record.launch.world_size or 1) < 2 or switched(record, "sharding") or not trained(record):
        return None
    if any(step.reducing_backwards or step.collectives.get("reduce_scatter") for step in steps):
        return None
    return Sighting(
        message=(
            f"Compiled autograd ran the backward pass of {sharding.strategy}, and no gradient was reduced over "
            f"{record.launch.world_size} ranks in any of {len(steps)} sampled steps: the callbacks of FSDP did not run."
        ),
        evidence=(
            *places(on[:1]),
            Evidence(what="backward passes in the sampled steps", value=sum(step.backwards for step in steps)),
            Evidence(what="of them with a gradient reduction", value=0),
            *places(applied(record, "fully_shard", "FullyShardedDataParallel")[:1]),
        ),
        confidence="likely",
    )


def captured(record: Record) -> tuple[Applied, ...]:
    """What asked for compiled autograd: a context around the backward pass, or Dynamo's configuration."""
    settings = applied(record, "dynamo.config")
    return (
        *applied(record, "compiled_autograd"),
        *(each for each in settings if each.detail.get("compiled_autograd")),
    )


COMPILED = r"compiled_autograd|compile_autograd|CompiledAutograd"


def detect_log(log: Log) -> Sighting | None:
    """Other misuse of callbacks prints it too, so frames that show neither FSDP nor the compiler acquit."""
    seen = mention(log, TEXT)
    if seen is None:
        return None
    compiled = passes(seen.failure, "_dynamo/compiled_autograd", "_dynamo/external_utils") or mention(log, COMPILED)
    sharded = passes(seen.failure, "torch/distributed/fsdp/", "torch/distributed/_composable/")
    if not compiled and not sharded and any(frames(seen.failure)):
        return None
    confidence: Confidence = "established" if compiled else "likely"
    return Sighting(
        message="A final callback was queued outside of the backward pass: compiled autograd ran the backward of FSDP.",
        evidence=(seen.evidence(log),),
        confidence=confidence,
        failure=seen.failure,
    )


RULE = Rule(
    id="compile/compiled-autograd-with-fsdp",
    title="Compiled autograd combined with FSDP",
    layers=("compile", "sharding"),
    severity="error",
    silent="torch 2.13 trains on: no gradient is reduced, parameters stay unsharded, each rank learns for itself.",
    cause=(
        "FSDP queues callbacks on the autograd engine, and compiled autograd runs the traced backward outside of it: "
        "they raise or are lost, by the release of torch."
    ),
    remedies=(
        Remedy(
            id="compiled-autograd-off",
            kind="in-process",
            automatic=True,
            how="torch._dynamo.config.compiled_autograd = False, and no compiled-autograd context",
        ),
    ),
    caution="Other misuse of autograd callbacks prints the same text: compiled autograd must be on.",
    sources=("https://github.com/pytorch/pytorch/issues/121071",),
    explains=(
        "sharding/gradients-not-reduced",
        "sharding/requested-and-not-applied",
        "trainer/optimizer-holds-replaced-parameters",
        "trainer/parameters-missing-from-optimizer",
    ),
    from_record=detect,
    from_log=detect_log,
)
