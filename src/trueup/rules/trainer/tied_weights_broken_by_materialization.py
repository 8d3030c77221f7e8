"""The configuration says that embeddings are tied, and they are two parameters."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, listed
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    training = record.actual.training
    flattened = (record.actual.sharding.strategy or "").startswith("FSDP1")  # its views are no parameters
    if not training.tied_requested or training.tied is not False or flattened:
        return None
    loads = [load for load in applied(record, "load_state_dict") if load.detail.get("missing")]
    missing = [str(name) for load in loads for name in load.detail.get("missing_names", ())]
    return Sighting(
        message="The configuration ties input and output embeddings, and the model holds two parameters"
        f"{f'; {listed(missing)} stayed as initialised' if missing else ''}.",
        evidence=(
            Evidence(what="embeddings tied by configuration", value=True),
            Evidence(what="embeddings are one parameter", value=False),
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
            automatic=False,
            how="model.tie_weights() after materialisation and before the optimizer; load with strict=True",
        ),
    ),
    caution="Models whose configuration does not tie them have two parameters by design.",
    from_record=detect,
)
