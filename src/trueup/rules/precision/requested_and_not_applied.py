"""Low precision was asked for, and matrix multiplications ran in float32."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, autocasts, percent, places, precision_asked, share, switched, trained
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    wanted = precision_asked(record)
    matmul = record.actual.precision.matmul
    single = share(matmul, "float32", "float64")
    if wanted is None or not matmul or single < 0.95 or switched(record, "precision") or not trained(record):
        return None
    return Sighting(
        message=f"{wanted} was requested, and {percent(single)} of the matrix-multiply FLOPs ran in float32.",
        evidence=(
            Evidence(what="precision requested", value=wanted),
            *(Evidence(what=f"share of matmul FLOPs in {dtype}", value=part) for dtype, part in matmul.items()),
            *places((*autocasts(record), *applied(record, "Accelerator"))[:2]),
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
        "to another object."
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
