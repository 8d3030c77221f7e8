"""Accelerate takes each of several ranks for the only one: each trains a model of its own."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, switched
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record

WITHOUT_DATA = {"barrier"}


def detect(record: Record) -> Sighting | None:
    ranks, sharding = record.launch.world_size or 1, record.actual.sharding
    alone = [each for each in applied(record, "Accelerator") if each.detail.get("num_processes") == 1]
    exchanged = any(set(step.collectives) - WITHOUT_DATA for step in sharding.exchanges)
    if ranks < 2 or not alone or switched(record, "sharding") or not sharding.exchanges or exchanged:
        return None
    if sharding.strategy not in (None, "none"):
        return None
    return Sighting(
        message=f"{ranks} ranks trained, and Accelerate took each for the only one: nothing was wrapped and nothing "
        f"exchanged in {len(sharding.exchanges)} sampled steps, so each trains a model of its own.",
        evidence=(
            Evidence(what="ranks that trained", value=ranks),
            Evidence(what="processes that Accelerate knows of", value=1, at=alone[0].at),
            Evidence(what="collectives of the sampled steps", value=0),
        ),
    )


RULE = Rule(
    id="launcher/accelerate-ranks-alone",
    title="Accelerate takes each rank for the only one",
    layers=("launcher", "trainer"),
    severity="error",
    silent="Each rank prints a falling loss of its own; accelerator.print prints once for each rank.",
    cause=(
        "Without a GPU, Accelerate and the Trainer join ranks only when they are told to use the CPU; else the state "
        "is distributed_type NO with one process, whatever the launcher started."
    ),
    remedies=(
        Remedy(
            id="accelerate-use-cpu",
            kind="env-var",
            automatic=True,
            how="Accelerator(cpu=True) or TrainingArguments(use_cpu=True), or ACCELERATE_USE_CPU=true for both",
        ),
    ),
    caution="Ranks that average by collectives of the script's own are together, also without Accelerate.",
    explains=("launcher/world-size-differs", "sharding/gradients-not-reduced"),
    from_record=detect,
)
