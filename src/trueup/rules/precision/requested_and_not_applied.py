"""Low precision was asked for, and matrix multiplications ran in float32."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, autocasts, is_on, percent, places, precision_asked, share, switched, trained
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Applied, Record


def detect(record: Record) -> Sighting | None:
    wanted = precision_asked(record)
    matmul = record.actual.precision.matmul
    single = share(matmul, "float32", "float64")
    if wanted is None or not matmul or single < 0.95 or switched(record, "precision") or not trained(record):
        return None
    without_model = prepared_without_model(record)
    return Sighting(
        message=f"{wanted} was requested, and {percent(single)} of the matrix-multiply FLOPs ran in float32.",
        evidence=(
            Evidence(what="precision requested", value=wanted),
            *(Evidence(what=f"share of matmul FLOPs in {dtype}", value=part) for dtype, part in matmul.items()),
            *places((*autocasts(record), *applied(record, "Accelerator"))[:2]),
            *places((without_model or ())[:2], "accelerator.prepare was given"),
        ),
        cause="" if without_model is None else cause_of(without_model),
        remedies=() if without_model is None else (PREPARE_MODEL,),
    )


def prepared_without_model(record: Record) -> tuple[Applied, ...] | None:
    """The calls of accelerator.prepare where an Accelerator holds the policy and no call got the model; else None."""
    policies = [each for each in applied(record, "Accelerator") if is_on(each.detail.get("mixed_precision"))]
    if not policies or autocasts(record) or applied(record, "Trainer"):
        return None
    calls = applied(record, "Accelerator.prepare")
    return calls if all(each.detail.get("models") == 0 for each in calls) else None


def cause_of(calls: tuple[Applied, ...]) -> str:
    given = f"it was given {calls[0].module or 'nothing'}" if calls else "it was never called"
    return (
        "mixed_precision of an Accelerator holds for the models that pass through accelerator.prepare, which wraps "
        f"their forward in autocast. No model did: {given}."
    )


PREPARE_MODEL = Remedy(
    id="prepare-the-model",
    kind="code",
    automatic=False,
    how=(
        "pass the model to accelerator.prepare: "
        "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)"
    ),
)

RULE = Rule(
    id="precision/requested-and-not-applied",
    title="Low precision was requested and float32 ran",
    layers=("precision",),
    severity="warning",
    silent="The loss is right; only speed and memory are those of float32.",
    cause=(
        "autocast does not surround the forward that trains, names another device, or the policy belongs "
        "to another object: that of an Accelerator to models which passed through accelerator.prepare."
    ),
    remedies=(
        Remedy(
            id="autocast-around-forward",
            kind="code",
            automatic=False,
            how=(
                "torch.autocast(device_type of the model, dtype) around forward and loss, or a "
                "mixed-precision policy for FSDP"
            ),
        ),
    ),
    caution="Parameters in float32 are right under autocast; the dtype of the multiplications counts.",
    residual=True,
    from_record=detect,
)
