"""Kernels of SDPA are switched off for the whole process."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import asked, errors, listed, switched
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    attention = record.actual.attention
    off = [name for name in ("flash", "mem_efficient") if attention.toggles.get(name) is False]
    if not off or switched(record, "attention") or asked(record, "attention", "backends"):
        return None
    crashed = errors(record, r"No available kernel|Invalid backend")
    unfused = attention.fused_fraction is not None and attention.fused_fraction < 0.95
    ran = listed(kernel.name for kernel in attention.kernels)
    return Sighting(
        message=f"SDPA's {listed(off)} kernels are switched off for the whole process{f'; {ran} ran' if ran else ''}.",
        evidence=(
            *(Evidence(what=f"global SDPA switch {name}", value=False) for name in off),
            Evidence(what="share of attention calls that ran a fused kernel", value=attention.fused_fraction),
            *crashed,
        ),
        confidence="established" if crashed or unfused else "likely",
        severity="error" if crashed else "warning" if unfused else "note",
    )


RULE = Rule(
    id="attention/sdpa-backend-disabled-globally",
    title="An imported package switched SDPA backends off process-wide",
    layers=("attention",),
    severity="warning",
    silent="The calling code restricts nothing; an import did.",
    cause=(
        "torch.backends.cuda.enable_flash_sdp and its like are global; a module that calls them when it is "
        "imported changes every model of the process."
    ),
    remedies=(
        Remedy(
            id="restore-sdpa-switches",
            kind="in-process",
            automatic=False,
            how=(
                "torch.backends.cuda.enable_flash_sdp(True) (and mem_efficient) after the imports, or "
                "sdpa_kernel([...])"
            ),
        ),
    ),
    caution="Compare the switches before and after the imports before the inputs are blamed.",
    sources=("https://github.com/seal-rg/recurrent-pretraining/issues/30",),
    explains=("attention/kernel-math-fallback", "attention/explicit-mask-deselects-flash"),
    from_record=detect,
)
