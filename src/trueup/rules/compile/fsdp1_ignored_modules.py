"""Dynamo of torch 2.6 fails in an FSDP1 model of which some modules are left out."""

from __future__ import annotations

from trueup.rules.compilation import compile_asked
from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, errors, installed
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Applied, Record


def detect(record: Record) -> Sighting | None:
    crashed = errors(record, r"_dynamo\b|Dynamo")
    wraps = tuple(wrap for wrap in applied(record, "FullyShardedDataParallel") if _ignored(wrap))
    if not crashed or not wraps or "torch" not in installed(record) or not compile_asked(record):
        return None
    return Sighting(
        message=f"Dynamo of torch {installed(record)['torch']} failed on an FSDP1 model that leaves out "
        f"{_ignored(wraps[0])} modules and parameters.",
        evidence=(
            *crashed,
            Evidence(what="modules and parameters that FSDP1 ignores", value=_ignored(wraps[0]), at=wraps[0].at),
        ),
        confidence="possible",
    )


def _ignored(wrap: Applied) -> int:
    return (wrap.detail.get("ignored_modules") or 0) + (wrap.detail.get("ignored_parameters") or 0)


RULE = Rule(
    id="compile/fsdp1-ignored-modules",
    title="Compile fails with FSDP1 ignored modules or states",
    layers=("compile", "sharding", "precision"),
    severity="error",
    silent="",
    cause=(
        "Dynamo treats modules below an FSDP1 root apart and takes for granted that FSDP manages all of them, which it "
        "does not with ignored_modules or ignored_states."
    ),
    remedies=(
        Remedy(id="upgrade-torch", kind="install", automatic=False, how="torch >= 2.7"),
        Remedy(
            id="fsdp2",
            kind="config-edit",
            automatic=False,
            how="fully_shard(model, ignored_params={...}), or no ignored module inside of what is compiled",
        ),
    ),
    caution="The cause is inferred from the report: see whether it compiles without ignored modules.",
    sources=("https://github.com/pytorch/pytorch/issues/147143",),
    versions={"torch": ">=2.6,<2.7"},
    from_record=detect,
)
