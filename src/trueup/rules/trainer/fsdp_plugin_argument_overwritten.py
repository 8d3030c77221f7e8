"""An argument given to the FSDP plugin was replaced by an environment default."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.environment_facts import asks_for_fsdp, installed_as, said, version_of
from trueup.rules.facts import applied, asked, variable
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record

ARGUMENTS = ("use_orig_params", "sharding_strategy", "cpu_offload", "reshard_after_forward")


def detect(record: Record) -> Sighting | None:
    changed = {
        name: (given, wrap.detail[name])
        for wrap in applied(record, "FullyShardedDataParallel", "fully_shard")
        for name in ARGUMENTS
        if (given := asked(record, "sharding", name)) is not None and wrap.detail.get(name, given) != given
    }
    if not changed:
        return None
    words = [f"{name}={given!r} became {used!r}" for name, (given, used) in changed.items()]
    variables = {name: variable(record, f"FSDP_{name.upper()}") for name in changed}
    return Sighting(
        message=f"The FSDP plugin was given other values than FSDP used: {', '.join(words)}.",
        evidence=(
            *(Evidence(what=f"{name} used by FSDP", value=str(used)) for name, (_, used) in changed.items()),
            *(Evidence(what=f"variable FSDP_{name.upper()}", value=value) for name, value in variables.items()),
        ),
    )


def detect_in_environment(environment: Environment) -> Sighting | None:
    sharded, accelerate = asks_for_fsdp(environment), version_of(environment, "accelerate")
    if sharded is None or accelerate is None or accelerate.release[:2] != (0, 33):
        return None
    return Sighting(
        message=f"accelerate {accelerate} lets FSDP_* variables overwrite what is passed to its FSDP plugin.",
        evidence=(installed_as(environment.packages["accelerate"]), said(sharded)),
        confidence="possible",
        severity="note",
    )


RULE = Rule(
    id="trainer/fsdp-plugin-argument-overwritten",
    title="FSDP plugin argument overwritten by an environment default",
    layers=("sharding", "trainer"),
    severity="warning",
    silent="The plugin takes the argument and forgets it; compile or adapters fail later for that reason.",
    cause="The plugin read its FSDP_* defaults after its arguments and did not tell given from missing ones.",
    remedies=(
        Remedy(
            id="fsdp-use-orig-params",
            kind="env-var",
            automatic=True,
            how="FSDP_USE_ORIG_PARAMS=true (and the other FSDP_* variables) set to the values that the code gives",
        ),
        Remedy(id="upgrade-accelerate", kind="install", automatic=False, how="accelerate >= 0.34"),
    ),
    caution="Current releases read the environment only for arguments that were left out.",
    versions={"accelerate": "<0.34"},
    sources=("https://github.com/huggingface/accelerate/issues/3044",),
    explains=("compile/fsdp1-flattened-parameters",),
    from_record=detect,
    from_environment=detect_in_environment,
)
