"""Gradient accumulation reduces the gradients over ranks at every micro-step."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    sharding, accumulation = record.actual.sharding, record.actual.training.accumulation or 1
    if accumulation < 2 or (record.launch.world_size or 1) < 2:
        return None
    scatters = sharding.collectives.get("reduce_scatter", 0)
    reducing = sharding.reducing_backwards
    if reducing is None and (sharding.strategy or "").startswith(("FSDP2", "HSDP")) and sharding.units:
        reducing = scatters // sharding.units  # each unit reduces once in a backward that synchronises
    if reducing is None or reducing < accumulation:
        return None
    return Sighting(
        message=(
            f"Gradients were reduced over ranks in {reducing} of {accumulation} backward passes of one optimizer step."
        ),
        evidence=(
            Evidence(what="backward passes per optimizer step", value=accumulation),
            Evidence(what="of them with a gradient reduction", value=reducing),
            *(Evidence(what=f"{name} calls per step", value=calls) for name, calls in sharding.collectives.items()),
        ),
    )


RULE = Rule(
    id="sharding/gradient-sync-every-micro-step",
    title="Gradient accumulation synchronises at every micro-step",
    layers=("sharding", "trainer"),
    severity="warning",
    silent="The result is right and only slower.",
    cause=(
        "backward() of a data-parallel module reduces gradients unless it runs under no_sync() or "
        "set_requires_gradient_sync(False)."
    ),
    remedies=(
        Remedy(
            id="no-sync-while-accumulating",
            kind="in-process",
            automatic=False,
            how="model.no_sync() on all micro-steps but the last, or accelerator.accumulate(model)",
        ),
    ),
    caution="FSDP without synchronisation keeps unsharded gradients between micro-steps; they may not fit.",
    from_record=detect,
)
