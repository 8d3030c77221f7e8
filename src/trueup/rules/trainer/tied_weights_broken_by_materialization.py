"""The configuration says that embeddings are tied, and they are two parameters."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, listed, places
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    training = record.actual.training
    flattened = (record.actual.sharding.strategy or "").startswith("FSDP1")  # its views are no parameters
    by_configuration = bool(training.tied_requested) and training.tied is False
    parted = [each for each in applied(record, "to", "load_state_dict") if each.detail.get("come_apart")]
    if flattened or not (by_configuration or (parted and training.shared == 0)):
        return None
    loads = [load for load in applied(record, "load_state_dict") if load.detail.get("missing")]
    missing = [str(name) for load in loads for name in load.detail.get("missing_names", ())]
    names = [str(name) for each in parted for name in each.detail["come_apart"]]
    what = (
        "The configuration ties input and output embeddings, and the model holds two parameters"
        if by_configuration
        else f"Parameters that were one ({'; '.join(names[:2])}) came apart, and each now has a tensor of its own"
    )
    return Sighting(
        message=f"{what}{f'; {listed(missing)} stayed as initialised' if missing else ''}.",
        evidence=(
            *(Evidence(what="tied parameters that came apart", value=name) for name in names[:3]),
            Evidence(what="embeddings tied by configuration", value=training.tied_requested),
            Evidence(what="embeddings are one parameter", value=training.tied),
            *places(parted[:1]),
            *(Evidence(what="keys missing when loading", value=load.detail["missing"], at=load.at) for load in loads),
        ),
        severity="error" if loads else "warning",
    )


RULE = Rule(
    id="trainer/tied-weights-broken-by-materialization",
    title="Tied weights come apart on materialisation and load without an error",
    layers=("trainer", "memory"),
    severity="error",
    silent="Loading without strict hides the missing key, and the configuration still says tied.",
    cause=(
        "to_empty() gives each module a tensor of its own, the checkpoint holds the shared one once, and "
        "the second stays random."
    ),
    remedies=(
        Remedy(
            id="tie-weights-again",
            kind="in-process",
            automatic=True,
            how="model.tie_weights() after materialisation and before the optimizer; load with strict=True",
        ),
    ),
    caution="Models whose configuration does not tie them have two parameters by design.",
    from_record=detect,
)
