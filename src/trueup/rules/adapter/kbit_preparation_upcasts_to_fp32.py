"""peft's k-bit preparation made every parameter that is not quantised float32."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, errors, percent, places, share
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record

TROUBLE = r"out of memory|OutOfMemoryError|must have the same dtype|expected .* same dtype|expected scalar type"

LARGE = 0.05
"""Share of the model's elements whose memory has doubled: more than norms hold."""


def detect(record: Record) -> Sighting | None:
    prepared = applied(record, "prepare_model_for_kbit_training")
    single = share(record.actual.precision.parameters, "float32")
    upcast = max(
        (int(each.detail.get("upcast") or 0) / int(each.detail.get("total") or 1) for each in prepared), default=0
    )
    trouble = errors(record, TROUBLE)
    if not prepared or not (upcast >= LARGE or (trouble and single >= 0.01)):
        return None
    ended = ", and the run ended for lack of memory or with a dtype error" if trouble else ""
    return Sighting(
        message=f"prepare_model_for_kbit_training cast {percent(upcast)} of the parameters up to float32{ended}."
        if upcast
        else f"prepare_model_for_kbit_training left {percent(single)} of the parameters in float32{ended}.",
        evidence=(
            Evidence(what="share of parameters cast up to float32", value=round(upcast, 4)),
            Evidence(what="share of parameters in float32", value=single),
            *trouble,
            *places(prepared),
        ),
        confidence="likely",
    )


RULE = Rule(
    id="adapter/kbit-preparation-upcasts-to-fp32",
    title="k-bit preparation casts norms, embeddings and head to float32",
    layers=("precision", "adapter", "memory"),
    severity="note",
    silent="Memory is higher than planned; dtype errors come later and elsewhere.",
    cause="The helper casts all half-precision parameters that are not quantised up, both embedding matrices included.",
    remedies=(
        Remedy(
            id="cast-embeddings-back",
            kind="in-process",
            automatic=True,
            how=(
                "cast embeddings and lm_head to bfloat16 after the preparation, or freeze and enable "
                "input grads by hand"
            ),
        ),
    ),
    caution="Intended by peft for stability: a note, and it counts for more only beside a memory or dtype failure.",
    sources=("https://github.com/huggingface/peft/issues/816",),
    from_record=detect,
)
