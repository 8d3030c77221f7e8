"""Gradient accumulation reduces the gradients over ranks at every micro-step."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, places
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record

RECORDED = 8
"""Backward passes of a step in which a sample records what runs: the first ones."""


def detect(record: Record) -> Sighting | None:
    sharding, accumulation = record.actual.sharding, record.actual.training.accumulation or 1
    if accumulation < 2 or (record.launch.world_size or 1) < 2:
        return None
    scatters = sharding.collectives.get("reduce_scatter", 0)
    reducing = sharding.reducing_backwards
    if reducing is None and (sharding.strategy or "").startswith(("FSDP2", "HSDP")) and sharding.units:
        reducing = scatters // sharding.units  # each unit reduces once in a backward that synchronises
    seen = min(accumulation, RECORDED)
    if reducing is None or reducing < seen:
        return None
    by_accelerate = () if applied(record, "Trainer") else applied(record, "Accelerator")
    configured = by_accelerate[0].detail.get("gradient_accumulation_steps") if by_accelerate else None
    steps = configured if isinstance(configured, int) else 1
    passes = f"{reducing} of {accumulation} backward passes of one optimizer step"
    if seen < accumulation:
        passes = f"each of the first {seen} of {accumulation} backward passes of one optimizer step, all that were seen"
    return Sighting(
        message=f"Gradients were reduced over ranks in {passes}.",
        evidence=(
            Evidence(what="backward passes per optimizer step", value=accumulation),
            Evidence(what="of them with a gradient reduction", value=reducing),
            *(Evidence(what=f"{name} calls per step", value=calls) for name, calls in sharding.collectives.items()),
            *places(by_accelerate[:1], f"Accelerator with gradient_accumulation_steps={steps}"),
        ),
        remedies=(NO_SYNC, accumulate(accumulation, steps)) if by_accelerate else (),
    )


def accumulate(wanted: int, configured: int) -> Remedy:
    """The lines for Accelerate, which synchronises where its own counter says so and divides the loss by it."""
    count = (
        f"keep gradient_accumulation_steps={configured}"
        if configured == wanted
        else f"Accelerator(gradient_accumulation_steps={wanted})"
    )
    return Remedy(
        id="accumulate-with-accelerate",
        kind="code",
        automatic=False,
        how=(
            f"{count}; put forward, backward, optimizer.step() and zero_grad() of each micro-step into "
            "`with accelerator.accumulate(model):`, without a condition of your own around step(); "
            "do not divide the loss yourself: accelerator.backward divides it by gradient_accumulation_steps"
        ),
    )


NO_SYNC = Remedy(
    id="no-sync-while-accumulating",
    kind="in-process",
    automatic=True,
    how="model.no_sync() on all micro-steps but the last, or accelerator.accumulate(model)",
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
    remedies=(NO_SYNC,),
    caution="FSDP without synchronisation keeps unsharded gradients between micro-steps; they may not fit.",
    from_record=detect,
)
